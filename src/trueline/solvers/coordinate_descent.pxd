from trueline.simd cimport row_add

cdef double shrunk(double u, double step, double l1, double l2, double lower, double upper) noexcept nogil

cdef class GramModel:
    cdef const double[:, ::1] H
    cdef readonly double[::1] q, theta
    cdef const double[::1] l1, l2, lower, upper
    cpdef Py_ssize_t descend(self, Py_ssize_t epochs, double tolerance) noexcept
    cdef double epoch(self) noexcept nogil
