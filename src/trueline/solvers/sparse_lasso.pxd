from libc.math cimport fabs
from libc.stdint cimport int64_t
from trueline.solvers.sparse_columns cimport SparseSlices

cdef int IDLE

cdef class SparseSteps:
    cdef readonly SparseSlices slices
    cdef readonly int64_t[::1] columns
    cdef readonly const double[::1] norms, mean, root, y
    cdef readonly double lift
    cdef double tau, mu, tolerance
    cdef bint positive
    cdef public double[::1] b, r
    cdef public double offset
    cdef double[::1] image, trial, change, rest, direction, product
    cdef int64_t[::1] support
    cdef Py_ssize_t held
    cpdef void solve(self, double tau, double mu, bint positive, double tolerance, Py_ssize_t most) noexcept
    cpdef double rebuild(self, const double[::1] b, double[::1] r) noexcept
    cpdef void squares(self, double[::1] out) noexcept
    cpdef void products(self, const double[::1] v, double[::1] out, Py_ssize_t start) noexcept
    cpdef void extend_gram(self, double[:, ::1] G, Py_ssize_t start) noexcept
    cdef double rebuilt(self, const double[::1] b, double[::1] r) noexcept nogil
    cdef double objective(self, const double[::1] r, double offset, const double[::1] b) noexcept nogil
    cdef double slope(self, Py_ssize_t j, const double[::1] r, double offset) noexcept nogil
    cdef void epoch(self) noexcept nogil
    cdef void find_support(self) noexcept nogil
    cdef void conjugate_gradients(self, double accuracy, Py_ssize_t products) noexcept nogil
    cdef double try_change(self) noexcept nogil
    cdef void go_to_first_crossing(self, double first) noexcept nogil
    cdef double worst_slope(self) noexcept nogil
