cdef enum:
    SPLIT = 134217729

cpdef void subtract_outer(double[:, ::1] H, double[:, ::1] E, Py_ssize_t pivot, const double[::1] ch, const double[::1] cl) noexcept
