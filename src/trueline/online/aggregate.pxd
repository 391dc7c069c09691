cimport cython
from libc.math cimport INFINITY as inf, exp, log

cdef double SHARE, ROUNDING, POOL_RATE, MEMORY

cpdef double rate(double gap, Py_ssize_t count) noexcept nogil
@cython.locals(k=Py_ssize_t, least=double, total=double)
cpdef void posterior(const double[::1] losses, Py_ssize_t count, double eta, double[::1] out) noexcept nogil
@cython.locals(gap=double)
cdef double excess(double suffered, double mixed) noexcept nogil
@cython.locals(k=Py_ssize_t, before=double, after=double, old=double, new=double)
cdef double mix_loss(const double[::1] losses, const double[::1] step, Py_ssize_t count, double eta) noexcept nogil
@cython.locals(k=Py_ssize_t, least=double, total=double)
cdef double share_loss(const double[::1] shares, const double[::1] step, Py_ssize_t count, double eta) noexcept nogil
@cython.locals(k=Py_ssize_t, least=double, total=double)
cdef void redistribute(double[::1] shares, const double[::1] step, Py_ssize_t count, double eta) noexcept nogil
@cython.locals(k=Py_ssize_t, least=double)
cdef void recent_weights(const double[::1] recent, Py_ssize_t count, double[::1] out) noexcept nogil
@cython.locals(k=Py_ssize_t)
cdef void remember(double[::1] recent, const double[::1] step, Py_ssize_t count, double c) noexcept nogil
@cython.locals(k=Py_ssize_t, total=double, gain=double)
cdef void pool_step(double[::1] pool, const double[::1] predictions, Py_ssize_t count, double y, double mixed, double noise) noexcept nogil
@cython.locals(k=Py_ssize_t, total=double)
cdef double average(const double[::1] weights, const double[::1] predictions, Py_ssize_t count) noexcept nogil
