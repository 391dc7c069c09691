from libc.math cimport INFINITY, fabs

from trueline.objective.loss_interface cimport ThreeNumbers, TwoNumbers, is_finite, three_numbers, two_numbers
from trueline.objective.named_function cimport NamedFunction

cdef class Penalty(NamedFunction):
    cdef double value(self, double w, double weight) except? -1e300 with gil
    cdef double prox(self, double w, double step, double weight) except? -1e300 with gil
    cdef double conjugate(self, double z, double weight) except? -1e300 with gil

cdef class Nothing(Penalty):
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class L1(Penalty):
    cdef readonly double alpha
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class L2(Penalty):
    cdef readonly double alpha
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class ElasticNet(Penalty):
    cdef readonly double alpha, l1_ratio
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class NonNegative(Penalty):
    cdef readonly double alpha
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class Box(Penalty):
    cdef readonly double lower, upper
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class GroupL1(Penalty):
    cdef readonly double alpha
    cdef double value(self, double w, double weight) noexcept nogil
    cdef double prox(self, double w, double step, double weight) noexcept nogil
    cdef double conjugate(self, double z, double weight) noexcept nogil

cdef class UserPenalty(Penalty):
    cdef TwoNumbers value_at, conjugate_at
    cdef ThreeNumbers prox_at
    cdef object find
    cdef double value(self, double w, double weight) except? -1e300 with gil
    cdef double prox(self, double w, double step, double weight) except? -1e300 with gil
    cdef double conjugate(self, double z, double weight) except? -1e300 with gil

cdef double soft_threshold(double w, double threshold) noexcept nogil
cpdef double scaled_value(Penalty penalty, const double[::1] theta, const double[::1] scale, const double[::1] weights) except? -1e300
cpdef int scaled_prox(Penalty penalty, const double[::1] theta, double step, const double[::1] scale, const double[::1] weights, double[::1] out) except -1
cpdef double scaled_conjugate(Penalty penalty, const double[::1] z, const double[::1] scale, const double[::1] weights) except? -1e300
