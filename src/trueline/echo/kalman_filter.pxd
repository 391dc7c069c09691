from libc.stdint cimport int64_t
from trueline.echo.sound_walks cimport Complex, answer_, covary_, gradient_, product_add, renew_, single_norm2

cdef int MAIN, SHADOW, MIC, LEFT
cdef float HALF, FIFTH

cdef class FilterPair:
    cdef readonly Py_ssize_t block, partitions
    cdef readonly Complex[:, :, ::1] W, G
    cdef readonly float[:, :, ::1] C
    cdef readonly float[:, ::1] noise, older_noise, S, rate, errors
    cdef readonly float[::1] keep, beta, gain, decay, before, power
    cdef readonly Complex[:, ::1] Y, between
    cdef readonly int64_t[::1] rows
    cdef public float noise_share, floor
    cpdef void hear(self, const float[::1] mic, const float[:, ::1] mics, const float[:, ::1] echoes) noexcept nogil
    cpdef double error_energy(self, Py_ssize_t which) noexcept nogil
    cdef void smooth(self, Py_ssize_t which, const Complex[:, ::1] E, Py_ssize_t row) noexcept nogil
    cpdef void around(self, const Complex[:, ::1] E) noexcept nogil
    cpdef void gradients(self, const Complex[:, ::1] X, Complex[:, ::1] E) noexcept nogil
    cpdef void update(self, const Complex[:, ::1] X, Py_ssize_t newest, float surest) noexcept nogil

cdef inline void covary(FilterPair pair, const Complex[:, ::1] X, Py_ssize_t row, Py_ssize_t old, Py_ssize_t i, Py_ssize_t p) noexcept nogil:
    covary_(<const float*> &X[row, 0], <const float*> &X[old, 0], &pair.C[i, p, 0], &pair.S[i, 0], &pair.S[2 + i, 0], <float*> &pair.between[i, 0], X.shape[1])

cdef inline void answer(FilterPair pair, Complex[:, ::1] E, Py_ssize_t i) noexcept nogil:
    answer_(&pair.S[i, 0], &pair.S[2 + i, 0], <const float*> &pair.between[i, 0], &pair.noise[i, 0], pair.floor, <float*> &E[i, 0], <float*> &E[2 + i, 0], E.shape[1])

cdef inline void gradient(FilterPair pair, const Complex[:, ::1] X, Py_ssize_t row, Py_ssize_t old, const Complex[:, ::1] E, Py_ssize_t i, Py_ssize_t p) noexcept nogil:
    gradient_(<const float*> &X[row, 0], <const float*> &X[old, 0], <const float*> &E[i, 0], <const float*> &E[2 + i, 0], &pair.C[i, p, 0], <float*> &pair.G[i, p, 0], X.shape[1])

cdef inline void renew(FilterPair pair, const Complex[:, ::1] X, Py_ssize_t row, Py_ssize_t i, Py_ssize_t p, float share, float keep2) noexcept nogil:
    renew_(<const float*> &X[row, 0], <const float*> &pair.W[i, p, 0], &pair.rate[i, 0], &pair.gain[0], share, keep2, &pair.C[i, p, 0], X.shape[1])
