cimport cython
from libc.stdint cimport int64_t

cdef Py_ssize_t FULL

cdef class Arriving:
    cdef const double[::1] values, y, learned, weights, born
    cdef const int64_t[::1] indices, starts
    cdef bint dense
    @cython.locals(waiting=double[:, ::1], shift=double[::1], origin=double, width=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t)
    cpdef Py_ssize_t wait(self, Py_ssize_t start, object moments, int64_t[::1] counts) except -1
