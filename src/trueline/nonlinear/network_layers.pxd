from libc.math cimport sqrt
from trueline.simd cimport row_add, row_dot

cdef enum:
    SIGMOID = 0
    TANH = 1
    RELU = 2

cdef double FIRST, SECOND, FLOOR, HUGE

cpdef void add_biases(int kind, double[:, ::1] units, const double[::1] biases) noexcept
cpdef bint score_rows(const double[:, ::1] units, const double[::1] weights, double bias, double[::1] out) noexcept
cpdef void blame_last(int kind, const double[:, ::1] units, const double[::1] delta, const double[::1] weights, const double[:, ::1] own, double[::1] slopes, double[:, ::1] under, double[::1] sums) noexcept
cpdef void blame(int kind, const double[:, ::1] units, const double[:, ::1] own, double[:, ::1] under, double[::1] sums) noexcept
cpdef void adam_step(double[::1] theta, const double[::1] slopes, double[::1] first, double[::1] second, const double[::1] decayed, double penalty, double rate, double steps) noexcept
