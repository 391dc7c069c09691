from libc.math cimport INFINITY, fabs

cpdef double separable_value(const double[::1] theta, const double[::1] l1, const double[::1] l2) noexcept
cpdef double separable_conjugate(const double[::1] z, const double[::1] l1, const double[::1] l2, const double[::1] lower, const double[::1] upper, const unsigned char[::1] counted) noexcept
cpdef double separable_shrink(const double[::1] z, const double[::1] l1, const double[::1] l2, const double[::1] lower, const double[::1] upper, const unsigned char[::1] counted) noexcept
cpdef void separable_stationarity(const double[::1] theta, const double[::1] gradient, const double[::1] l1, const double[::1] l2, const double[::1] lower, const double[::1] upper, double[::1] out) noexcept
