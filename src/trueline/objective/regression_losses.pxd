from libc.math cimport INFINITY, copysign, fabs, pow

from trueline.objective.loss_interface cimport Loss

cdef class Squared(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double curvature_bound(self) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class Absolute(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class Huber(Loss):
    cdef readonly double delta
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double curvature_bound(self) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class Quantile(Loss):
    cdef readonly double quantile
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class EpsilonInsensitive(Loss):
    cdef readonly double epsilon
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil

cdef class Power(Loss):
    cdef readonly double p
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double curvature_bound(self) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
