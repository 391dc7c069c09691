from libc.math cimport INFINITY, exp, fabs, log

from trueline.objective.loss_interface cimport Loss
from trueline.objective.margin_losses cimport entropy_term

cdef class Poisson(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double mean(self, double score) except? -1e300 nogil

cdef class Gamma(Loss):
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double mean(self, double score) except? -1e300 nogil

cdef class Tweedie(Loss):
    cdef readonly double p
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double mean(self, double score) except? -1e300 nogil
