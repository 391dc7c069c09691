cimport cython
from libc.stdint cimport int64_t
from trueline.simd cimport dot, rank_one, row_add, symmetric_product

from trueline.online.dict_rows cimport plain
from trueline.online.named cimport NamedRow

cdef double LARGEST

cdef class Recursion:
    cdef double[:, :, ::1] P
    cdef double[:, ::1] v
    cdef double[::1] w, u
    cdef const double[::1] values
    cdef const int64_t[::1] indices, starts
    cdef Py_ssize_t size
    cdef bint dense, forward, intercept
    cdef double forget, rounds, weight, loss, largest_y2, largest_e2
    cpdef Py_ssize_t learn(self, const double[::1] y, const double[::1] weights, Py_ssize_t start, Py_ssize_t stop, double[::1] out) except -1
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t)
    cdef void complete(self) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t, first=Py_ssize_t, spread=double, score=double, prediction=double, error=double, gain=double)
    cdef bint step(self, Py_ssize_t i, double y, double c, bint learning, double[::1] out) noexcept nogil

cdef class RecursiveRow:
    cdef NamedRow row
    cdef Recursion recursion
    cdef object model_P, model_w, model_numbers
    cdef double[::1] figures, before_w, out
    cdef double[:, ::1] before_P
    cdef bint read(self, object model, object features) except -1
    @cython.locals(j=Py_ssize_t)
    cdef bint usable(self) noexcept nogil
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t)
    cdef void keep(self, bint saving) noexcept nogil
