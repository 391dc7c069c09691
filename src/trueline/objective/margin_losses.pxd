from libc.math cimport INFINITY, exp, fabs, log, log1p

from trueline.objective.loss_interface cimport Loss

cdef inline double entropy_term(double p) noexcept nogil:
    return p * log(p) if p > 0.0 else 0.0

cdef class Logistic(Loss):
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double curvature_bound(self) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double mean(self, double score) noexcept nogil

cdef class Hinge(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class SquaredHinge(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double curvature_bound(self) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

cdef class Perceptron(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double prox(self, double score, double y, double step) noexcept nogil

ctypedef fused AnyLoss:
    Hinge
    SquaredHinge
    Perceptron

cdef double fill_loop(AnyLoss loss, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
