from libc.math cimport INFINITY, fabs, log
from libc.stdint cimport int64_t
from trueline.objective.loss_interface cimport Loss

cdef int sum_conjugates(Loss loss, const double[::1] ca, const double[::1] y, const double[::1] c, const double[::1] offset, Py_ssize_t start, Py_ssize_t stop, double[::1] sums) except -1
cdef double sum_beyond(Loss loss, const double[::1] ca, const double[::1] y, const double[::1] c) except? -1e300
cdef int sum_upper_conjugates(Loss loss, const double[::1] ca, const double[::1] y, const double[::1] c, const double[::1] offset, const double[::1] score, double[::1] sums) except -1
cdef double upper_conjugate(Loss loss, double a, double y, double s) except? -1e300 nogil
cpdef void below_the_top(const double[:, ::1] scores, const int64_t[::1] y, double[:, ::1] below, double[::1] own) noexcept
cpdef double softmax_shares(double[:, ::1] p, const double[::1] own, const int64_t[::1] y, const double[::1] c, double[:, ::1] slope) noexcept
cpdef double negative_entropy(const double[:, ::1] q, const double[::1] c) noexcept
