from libc.stdint cimport int64_t
from trueline.objective.loss_interface cimport Loss
from trueline.simd cimport row_add
from trueline.solvers.sparse_columns cimport Columns

cdef double shrunk(double u, double step, double l1, double l2, double lower, double upper) noexcept nogil

cdef class GramModel:
    cdef const double[:, ::1] H
    cdef readonly double[::1] q, theta
    cdef const double[::1] l1, l2, lower, upper
    cpdef Py_ssize_t descend(self, Py_ssize_t epochs, double tolerance) noexcept
    cdef double epoch(self) noexcept nogil

cdef class DualEpochs:
    cdef readonly Loss loss
    cdef readonly Columns rows
    cdef readonly double[::1] a, w
    cdef readonly double b
    cdef const double[::1] y, c, offset, q
    cdef double rate, rate_b
    cdef int visit(self, const int64_t[::1] order) except -1 nogil
    cpdef int epoch(self, const int64_t[::1] order) except -1
