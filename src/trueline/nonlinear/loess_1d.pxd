from libc.math cimport exp, NAN, sqrt
from trueline.simd cimport curve_sums, line_sums, tricube_sums

cdef double GAUSSIAN_REACH

cdef Py_ssize_t first_within(const double[::1] x, double q, double reach) noexcept nogil
cdef Py_ssize_t past_within(const double[::1] x, double q, double reach) noexcept nogil
cdef void square_weights(double[::1] w, const double[::1] case, Py_ssize_t first, Py_ssize_t last) noexcept nogil
cdef double counted_width(const double[::1] x, double q, Py_ssize_t count) noexcept nogil
cdef double weighed_width(const double[::1] x, const double[::1] case, double q, double k) noexcept nogil
cdef void gaussian_weights(const double[::1] x, const double[::1] g, Py_ssize_t first, Py_ssize_t last, double q, double nearest, double factor, double[::1] w) noexcept nogil
cpdef void neighbour_widths(const double[::1] x, const double[::1] case, const double[::1] queries, double k, double[::1] out) noexcept

cdef class SortedRows:
    cdef readonly const double[::1] x, y, g, case
    cdef readonly Py_ssize_t degree
    cdef readonly bint gaussian, full
    cdef double span
    cpdef void fit_all(self, const double[::1] queries, const double[::1] h, double[::1] w, double[::1] sums, double[:, ::1] out) noexcept
    cdef void fit_one(self, Py_ssize_t i, double q, double h, double[::1] w, double[::1] sums, double[:, ::1] out) noexcept nogil
    cdef double nearest(self, double q) noexcept nogil
