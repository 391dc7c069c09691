from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t

from trueline.objective.loss_interface cimport Loss

cpdef double rate(double gap, Py_ssize_t count) noexcept nogil
cpdef void posterior(const double[::1] losses, Py_ssize_t count, double eta, double[::1] out) noexcept nogil
cdef double mix_loss(const double[::1] losses, const double[::1] step, Py_ssize_t count, double eta) noexcept nogil

cdef class RateHedge:
    cdef readonly Loss loss
    cdef readonly bint clip
    cdef double[::1] share, step
    cdef int mix(self, const double[:, ::1] scores, const double[::1] y, const double[::1] weights, double[::1] losses, double[::1] totals, double[::1] out) except -1
