from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t

cdef double TIE

cdef class SortedColumns:
    cdef readonly const double[:, ::1] columns
    cdef readonly const int32_t[:, ::1] order
    cdef readonly const double[::1] y
    cdef double[::1] D, signed_
    cdef readonly double base
    cdef double[::1] errors
    cdef int64_t[::1] places
    cpdef void scan(self, Py_ssize_t start, Py_ssize_t stop) noexcept
    cdef void scan_column(self, Py_ssize_t j) noexcept nogil
    cpdef double reweigh(self, Py_ssize_t j, double threshold, double sign, double alpha) noexcept

cpdef void add_votes(const double[:, ::1] X, const int64_t[::1] features, const double[::1] thresholds, const double[::1] votes, Py_ssize_t start, Py_ssize_t stop, double[::1] out) noexcept
