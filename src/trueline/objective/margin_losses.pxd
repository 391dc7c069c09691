from libc.math cimport INFINITY, exp, fabs, log, log1p

from trueline.objective.loss_interface cimport Loss

cdef inline double entropy_term(double p) noexcept nogil:
    return p * log(p) if p > 0.0 else 0.0

cdef class Logistic(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) except? -1e300 nogil
    cdef double curvature_bound(self) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double mean(self, double score) except? -1e300 nogil

cdef class Hinge(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class SquaredHinge(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double curvature_bound(self) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class Perceptron(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil
