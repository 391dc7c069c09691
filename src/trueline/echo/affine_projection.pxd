from libc.math cimport fabs, sqrt
from trueline.echo.lms_filter cimport SlidingWindow
from trueline.echo.sound_walks cimport shrink_row, window_add, window_dot, window_row_dot, windows_dot
from trueline.simd cimport rows_dot

cdef double SILENT, HUGE

cdef class AffineProjection:
    cdef readonly SlidingWindow window
    cdef readonly double rate, ridge, loudest
    cdef readonly Py_ssize_t order, resets
    cdef double[::1] w, recent, e, mic, echo
    cdef double[:, ::1] R, G
    cdef object heard, predicted
    cdef void project(self, Py_ssize_t count) noexcept nogil
    cdef void solve(self) noexcept nogil

cdef class RecursiveLeastSquares:
    cdef readonly SlidingWindow window
    cdef readonly double forgetting, ridge, loudest, start
    cdef readonly Py_ssize_t resets
    cdef double[::1] w, Px, mic, echo
    cdef double[:, ::1] P
    cdef object heard, predicted
    cdef void recurse(self, Py_ssize_t count) noexcept nogil
