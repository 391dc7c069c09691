from libc.math cimport INFINITY, exp, fabs, log

from trueline.objective.loss_interface cimport Loss
from trueline.objective.margin_losses cimport entropy_term

cdef class Poisson(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double mean(self, double score) noexcept nogil

cdef class Gamma(Loss):
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double mean(self, double score) noexcept nogil

cdef class Tweedie(Loss):
    cdef readonly double p
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef double value(self, double score, double y) noexcept nogil
    cdef double slope(self, double score, double y) noexcept nogil
    cdef double curvature(self, double score, double y) noexcept nogil
    cdef double conjugate(self, double slope, double y) noexcept nogil
    cdef double lowest_slope(self, double y) noexcept nogil
    cdef double highest_slope(self, double y) noexcept nogil
    cdef double mean(self, double score) noexcept nogil

ctypedef fused AnyLoss:
    Poisson
    Gamma
    Tweedie

cdef double fill_loop(AnyLoss loss, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
