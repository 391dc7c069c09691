from libc.stdint cimport int64_t
from trueline.simd cimport row_add, row_dot, rows_add, rows_dot
from libc.math cimport sqrt

cdef int BLOCK

cdef double lower_entry(const double[:, ::1] G, Py_ssize_t i, Py_ssize_t j) noexcept nogil

cdef class CholeskyUpdate:
    cdef readonly double[:, ::1] U, half, block
    cdef readonly int64_t[::1] order
    cdef public Py_ssize_t size
    cdef public double ridge, mu
    cpdef void solve_upper(self, double[::1] z) noexcept nogil
    cpdef void solve_lower(self, double[::1] z) noexcept nogil
    cpdef void append(self, const double[:, ::1] G, const double[::1] c, const double[::1] signs, const int64_t[::1] new, Py_ssize_t start, Py_ssize_t count) noexcept nogil
    cpdef void remove(self, Py_ssize_t at) noexcept nogil
