cdef class LearnerState:
    cdef readonly Py_ssize_t width
    cdef readonly bint intercept
    cdef public double[::1] dual, memory, low, high, pending, average, shrunk, cut, older, newer, start
    cdef public double rounds, weight, loss
    cdef public double total, shift, touched
    cdef public double shrink, threshold, waiting
    cdef public double step_loss, step_weight, zero_loss, excess
    cdef public double largest_norm2, reach, range, peak, size2, largest_size2, distance
    cdef public double older_loss, newer_loss, older_own, newer_own, older_excess, newer_excess, older_at, newer_at
    cdef public double mistakes, slope2, largest_loss
    cpdef void clear_sums(self)

cdef class Snapshot:
    cdef readonly dict arrays
    cdef readonly dict sums
