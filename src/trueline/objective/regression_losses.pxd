from libc.math cimport INFINITY, copysign, fabs, pow

from trueline.objective.loss_interface cimport Loss

cdef class Squared(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double curvature_bound(self) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class Absolute(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class Huber(Loss):
    cdef readonly double delta
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double curvature_bound(self) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class Quantile(Loss):
    cdef readonly double quantile
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class EpsilonInsensitive(Loss):
    cdef readonly double epsilon
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class Power(Loss):
    cdef readonly double p
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double curvature_bound(self) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil

ctypedef fused AnyLoss:
    Squared
    Absolute
    Huber
    Quantile
    EpsilonInsensitive
    Power

cdef double fill_loop(AnyLoss loss, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
