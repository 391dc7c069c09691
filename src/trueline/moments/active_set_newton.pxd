from libc.stdint cimport int64_t
from libc.math cimport fabs
from trueline.moments.cholesky_update cimport BLOCK, CholeskyUpdate
from trueline.simd cimport row_add, row_dot

cdef int LOOKS

cdef class ActiveSet:
    cdef public double[:, ::1] G
    cdef public double[::1] c, signs
    cdef readonly signed char[::1] active
    cdef double[::1] correlations, solution
    cdef int64_t[::1] entering
    cdef readonly CholeskyUpdate factor
    cdef public Py_ssize_t size
    cdef readonly Py_ssize_t capacity
    cdef readonly bint whole
    cdef bint positive
    cdef double slack
    cpdef void newton_steps(self, double tau, double[::1] b) noexcept
    cdef void leave(self, Py_ssize_t place, double[::1] b) noexcept nogil
    cdef bint drop_wrong_signs(self, double[::1] b) noexcept nogil
    cdef bint step_to_first_sign_change(self, double[::1] b) noexcept nogil
    cdef Py_ssize_t find_entering(self, double bound, bint single) noexcept nogil
    cdef void find_correlations(self, const double[::1] b) noexcept nogil
