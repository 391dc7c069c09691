from libc.math cimport fabs
from libc.stdint cimport int64_t
from trueline.solvers.coordinate_descent cimport shrunk
from trueline.solvers.sparse_columns cimport Columns

cdef class QuadraticModel:
    cdef readonly Columns columns
    cdef const int64_t[::1] rooms
    cdef const double[::1] h, start, slope, l1, l2, lower, upper, shift, scale, curve, second
    cdef double[::1] theta, sums, rest, delta, direction, product, image, kept
    cdef double[:] change
    cdef int64_t[::1] support
    cdef Py_ssize_t held
    cdef double weight, base, total, slope_b
    cdef bint profiled
    cdef double slope_at(self, Py_ssize_t k) noexcept nogil
    cdef void move(self, Py_ssize_t k, double new) noexcept nogil
    cdef void epoch(self, bint whole) noexcept nogil
    cdef double violation(self) noexcept nogil
    cdef void times_hessian(self) noexcept nogil
    cdef Py_ssize_t conjugate_gradients(self, double accuracy, Py_ssize_t products) noexcept nogil
    cdef double value(self) noexcept nogil
    cdef double shift_support(self, double step) noexcept nogil
    cdef double shift_as_far_as_it_gains(self) noexcept nogil
