# The C side of losses. `except? -1e300`: what a method that raises returns, so that loops stop and pass the error on.
# A method that cannot raise is `noexcept`, and so may be inlined into vector loops.
# `with gil`: called without the GIL like the others, takes it inside, so that its body may be any Python.
from libc.math cimport INFINITY

from trueline.objective.named_function cimport NamedFunction

ctypedef double (*OneNumber)(double) noexcept nogil
ctypedef double (*TwoNumbers)(double, double) noexcept nogil
ctypedef double (*ThreeNumbers)(double, double, double) noexcept nogil

cdef inline bint is_finite(double v) noexcept nogil:
    return v - v == 0.0

cdef inline OneNumber one_number(size_t address) noexcept:
    return <OneNumber>address

cdef inline TwoNumbers two_numbers(size_t address) noexcept:
    return <TwoNumbers>address

cdef inline ThreeNumbers three_numbers(size_t address) noexcept:
    return <ThreeNumbers>address

cdef class Loss(NamedFunction):
    cdef double value(self, double score, double y) except? -1e300 with gil
    cdef double slope(self, double score, double y) except? -1e300 with gil
    cdef double curvature(self, double score, double y) except? -1e300 with gil
    cdef double conjugate(self, double slope, double y) except? -1e300 with gil
    cdef double prox(self, double score, double y, double step) except? -1e300 with gil
    cdef double mean(self, double score) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 with gil
    cdef double highest_slope(self, double y) except? -1e300 with gil
    cdef double curvature_bound(self) except? -1e300 nogil
    cdef double fill_derivatives(self, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t start, Py_ssize_t stop) except? -1e300 nogil

cdef class PythonLoss(Loss):
    cdef double value(self, double score, double y) except? -1e300 with gil
    cdef double slope(self, double score, double y) except? -1e300 with gil
    cdef double curvature(self, double score, double y) except? -1e300 with gil
    cdef double conjugate(self, double slope, double y) except? -1e300 with gil
    cdef double prox(self, double score, double y, double step) except? -1e300 with gil
    cdef double mean(self, double score) except? -1e300 with gil
    cdef double lowest_slope(self, double y) except? -1e300 with gil
    cdef double highest_slope(self, double y) except? -1e300 with gil
    cdef double curvature_bound(self) except? -1e300 with gil

cdef class PointerLoss(PythonLoss):
    cdef TwoNumbers value_at, slope_at, curvature_at, conjugate_at
    cdef ThreeNumbers prox_at
    cdef OneNumber mean_at, lowest_slope_at, highest_slope_at
    cdef object keep
    cdef double value(self, double score, double y) except? -1e300 nogil
    cdef double slope(self, double score, double y) except? -1e300 nogil
    cdef double curvature(self, double score, double y) except? -1e300 nogil
    cdef double conjugate(self, double slope, double y) except? -1e300 nogil
    cdef double prox(self, double score, double y, double step) except? -1e300 nogil
    cdef double mean(self, double score) except? -1e300 nogil
    cdef double lowest_slope(self, double y) except? -1e300 nogil
    cdef double highest_slope(self, double y) except? -1e300 nogil
    cdef double value_again(self, double score, double y) except? -1e300 with gil
    cdef double slope_again(self, double score, double y) except? -1e300 with gil
    cdef double curvature_again(self, double score, double y) except? -1e300 with gil
    cdef double conjugate_again(self, double slope, double y) except? -1e300 with gil
    cdef double prox_again(self, double score, double y, double step) except? -1e300 with gil
    cdef double mean_again(self, double score) except? -1e300 with gil
    cdef double lowest_slope_again(self, double y) except? -1e300 with gil
    cdef double highest_slope_again(self, double y) except? -1e300 with gil

cdef int fill(Loss loss, int what, const double[::1] first, const double[::1] second, const double[::1] third, double[::1] out) except -1
cdef double derivatives_(Loss loss, const double[::1] scores, const double[::1] y, const double[::1] c, double[::1] slope, double[::1] curvature, Py_ssize_t first, Py_ssize_t last) except? -1e300
