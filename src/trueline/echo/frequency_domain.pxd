from libc.stdint cimport int64_t
from trueline.echo.sound_walks cimport Complex, power_add, product_add, turned

cpdef void products(const Complex[:, ::1] X, const int64_t[::1] rows, const Complex[:, :, ::1] W, Complex[:, ::1] Y) noexcept nogil
cpdef void half_power(const Complex[:, ::1] X, float[::1] power) noexcept nogil
cpdef void conjugate_products(const Complex[:, ::1] X, Py_ssize_t newest, const Complex[::1] E, Complex[:, :, ::1] G) noexcept nogil
