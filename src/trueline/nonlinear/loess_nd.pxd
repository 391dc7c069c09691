from libc.math cimport exp, NAN, sqrt

cdef void square_distances(const double[:, ::1] Z, const double[:, ::1] queries, Py_ssize_t i, double[::1] out) noexcept nogil
cpdef void distances_to(const double[:, ::1] Z, const double[:, ::1] queries, Py_ssize_t i, double[::1] out) noexcept

cdef class ScatteredRows:
    cdef readonly const double[:, ::1] Z
    cdef readonly const double[::1] y, g, case
    cdef readonly Py_ssize_t degree, size
    cdef readonly bint gaussian, full
    cdef double[:, ::1] M, S, L
    cdef double[::1] squares, c, b, v
    cpdef void fit_all(self, const double[:, ::1] queries, const double[::1] h, double[:, ::1] out) noexcept
    cdef void fit_one(self, const double[:, ::1] queries, Py_ssize_t i, double h, double[:, ::1] out) noexcept nogil
    cdef double weight(self, Py_ssize_t j, double nearest, double inverse) noexcept nogil
    cdef void add_row(self, const double[:, ::1] queries, Py_ssize_t i, Py_ssize_t j, double w, double inverse) noexcept nogil
    cdef void factor(self) noexcept nogil
    cdef void solve(self, const double[::1] right) noexcept nogil
