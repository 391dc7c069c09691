from trueline.objective.loss_interface cimport Loss
from trueline.online.aggregate cimport mix_loss, posterior, rate

cdef class RateHedge:
    cdef readonly Loss loss
    cdef readonly bint clip
    cdef double[::1] share, step
    cdef int mix(self, const double[:, ::1] scores, const double[::1] y, const double[::1] weights, double[::1] losses, double[::1] totals, double[::1] out) except -1
