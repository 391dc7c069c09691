from libc.math cimport exp, pow
from trueline.simd cimport rows_dot

cdef int POLYNOMIAL, GAUSSIAN

cdef double gaussian_score(const double[:, ::1] rows, const double[::1] signs, Py_ssize_t size, double gamma, double extra, const double[:, ::1] X, Py_ssize_t i) noexcept nogil

cdef class Expansion:
    cdef double[:, ::1] rows
    cdef double[::1] signs, norms
    cdef readonly Py_ssize_t size, oldest, mistakes, budget
    cdef int kind
    cdef double gamma, coef0, degree, extra
    cdef double score(self, const double[:, ::1] X, Py_ssize_t i) noexcept nogil
    cdef void add(self, const double[:, ::1] X, Py_ssize_t i, double sign) noexcept nogil
    cpdef Py_ssize_t learn_rows(self, const double[:, ::1] X, const double[::1] y, Py_ssize_t start, double[::1] out) noexcept
    cpdef void score_rows(self, const double[:, ::1] X, Py_ssize_t start, Py_ssize_t stop, double[::1] out) noexcept
