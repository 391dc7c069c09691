from trueline.echo.sound_walks cimport single_window_add, single_window_dot, window_add, window_dot

cdef double HUGE

cdef class SlidingWindow:
    cdef readonly Py_ssize_t taps, lead, head, first
    cdef readonly object signal
    cdef readonly bint single
    cdef float[::1] singles
    cdef double[::1] doubles, norms
    cdef double norm2
    cdef Py_ssize_t age
    cdef double sample(self, Py_ssize_t at) noexcept nogil
    cdef void slide_norms(self, Py_ssize_t count) noexcept nogil

cdef class LmsFilter:
    cdef readonly SlidingWindow window
    cdef readonly double rate, epsilon, loss, weighted_loss, silent_loss, loudest
    cdef readonly bint normalised
    cdef readonly Py_ssize_t samples, resets
    cdef readonly object w, heard
    cdef object rounded, predicted
    cdef float[::1] single_w
    cdef double[::1] double_w, mic, echo
    cdef void learn(self, Py_ssize_t count) noexcept nogil

cdef bint usable(double score, double error, double step, double norm2) noexcept nogil
cpdef void add_lags(const double[::1] signal, const double[::1] mic, Py_ssize_t count, double[::1] r, double[::1] b) noexcept nogil
