# The C functions of sound_walks.h for the .pxd files of kernels; sound_walks.py is their twin for kernels that run uncompiled.
from trueline.simd cimport add_, dot_

cdef extern from "echo/sound_walks.h" nogil:
    float single_dot_ "sound.dot"(const float* x, const float* w, Py_ssize_t n) noexcept
    void single_add_ "sound.add"(const float* x, float scale, float* w, Py_ssize_t n) noexcept
    void shrink_ "sound.shrink"(const double* v, double scale, double grow, double* p, Py_ssize_t n) noexcept
    void product_add_ "sound.product_add"(const float* x, const float* w, float* y, Py_ssize_t n) noexcept
    void power_add_ "sound.power_add"(const float* x, float* power, Py_ssize_t n) noexcept
    void turned_ "sound.turned"(const float* x, const float* e, float* g, Py_ssize_t n) noexcept
    void covary_ "sound.covary"(const float* x, const float* o, const float* c, float* now, float* then, float* between, Py_ssize_t n) noexcept
    void answer_ "sound.answer"(const float* now, const float* then, const float* between, const float* noise, float floor, float* e, float* older, Py_ssize_t n) noexcept
    void gradient_ "sound.gradient"(const float* x, const float* o, const float* e, const float* older, const float* c, float* g, Py_ssize_t n) noexcept
    void renew_ "sound.renew"(const float* x, const float* w, const float* rate, const float* least, float share, float keep2, float* c, Py_ssize_t n) noexcept

ctypedef float complex Complex

cdef inline double window_dot(const double[::1] signal, Py_ssize_t first, const double[::1] w, Py_ssize_t n) noexcept nogil:
    return dot_(&signal[first], &w[0], n)

cdef inline void window_add(const double[::1] signal, Py_ssize_t first, double scale, double[::1] w, Py_ssize_t n) noexcept nogil:
    add_(&signal[first], scale, &w[0], n)

cdef inline double windows_dot(const double[::1] signal, Py_ssize_t first, Py_ssize_t other, Py_ssize_t n) noexcept nogil:
    return dot_(&signal[first], &signal[other], n)

cdef inline float single_window_dot(const float[::1] signal, Py_ssize_t first, const float[::1] w, Py_ssize_t n) noexcept nogil:
    return single_dot_(&signal[first], &w[0], n)

cdef inline void single_window_add(const float[::1] signal, Py_ssize_t first, float scale, float[::1] w, Py_ssize_t n) noexcept nogil:
    single_add_(&signal[first], scale, &w[0], n)

cdef inline double window_row_dot(const double[:, ::1] P, Py_ssize_t i, const double[::1] signal, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    return dot_(&P[i, 0], &signal[first], n)

cdef inline void shrink_row(const double[::1] v, double scale, double grow, double[:, ::1] P, Py_ssize_t i) noexcept nogil:
    shrink_(&v[0], scale, grow, &P[i, 0], P.shape[1])

cdef inline void product_add(const Complex[:, ::1] X, Py_ssize_t row, const Complex[:, :, ::1] W, Py_ssize_t i, Py_ssize_t p, Complex[:, ::1] Y, Py_ssize_t j) noexcept nogil:
    product_add_(<const float*> &X[row, 0], <const float*> &W[i, p, 0], <float*> &Y[j, 0], X.shape[1])

cdef inline void power_add(const Complex[:, ::1] X, Py_ssize_t row, float[::1] power) noexcept nogil:
    power_add_(<const float*> &X[row, 0], &power[0], X.shape[1])

cdef inline void turned(const Complex[:, ::1] X, Py_ssize_t row, const Complex[::1] E, Complex[:, :, ::1] G, Py_ssize_t p) noexcept nogil:
    turned_(<const float*> &X[row, 0], <const float*> &E[0], <float*> &G[0, p, 0], X.shape[1])

cdef inline float single_norm2(const float[:, ::1] A, Py_ssize_t i, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    return single_dot_(&A[i, first], &A[i, first], n)
