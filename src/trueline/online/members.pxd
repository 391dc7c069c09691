cimport cython
from libc.math cimport exp, isfinite, log, sqrt
from libc.stdint cimport int64_t
from trueline.simd cimport rank_one, row_dot, symmetric_product

cdef double INTERCEPT_UNIT, DEAD, BOUND, BOUNDED, WOUND

cdef class Members:
    cdef double[:, ::1] columns, w, twins, table, sums, Pu
    cdef double[:, :, ::1] P
    cdef double[::1] forget, ridge, noise, rates, u, q, z
    cdef int64_t[::1] places
    cdef const double[::1] values
    cdef const int64_t[::1] indices
    cdef Py_ssize_t size, filters, twinned, steps, own, count, start, stop
    cdef bint centred, dense
    cdef void take_row(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef Py_ssize_t column(self, Py_ssize_t k) noexcept nogil
    @cython.locals(k=Py_ssize_t)
    cdef void shift_to_row(self) noexcept nogil
    cdef double score(self, Py_ssize_t f) noexcept nogil
    cdef double twin_score(self, Py_ssize_t f) noexcept nogil
    cdef double product(self, Py_ssize_t f) noexcept nogil
    @cython.locals(i=Py_ssize_t)
    cdef void absorb(self, Py_ssize_t f, double curvature, double step, double forget) noexcept nogil
    @cython.locals(i=Py_ssize_t, share=double)
    cdef void pull(self, double[:, ::1] w, Py_ssize_t f, Py_ssize_t j, double delta) noexcept nogil
    @cython.locals(i=Py_ssize_t, growth=double)
    cdef void strengthen(self, Py_ssize_t f, Py_ssize_t j, double delta) noexcept nogil
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t, unit=double)
    cdef void restart(self, Py_ssize_t f) noexcept nogil
    @cython.locals(j=Py_ssize_t, unit=double)
    cdef double tend(self, Py_ssize_t f) noexcept nogil
    @cython.locals(i=Py_ssize_t, reach=double, step=double, usable=bint)
    cdef void bounded_step(self, Py_ssize_t f, double error, double c, double total) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t)
    cdef void load(self) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t, after=double, gap=double, variance=double, centre=double, entered=bint)
    cdef bint spread(self, double weight, double total, double number, bint present) noexcept nogil
    @cython.locals(j=Py_ssize_t)
    cdef void enter(self, Py_ssize_t f) noexcept nogil
    @cython.locals(j=Py_ssize_t, unit=double, found=bint)
    cdef bint grown(self, double total, bint present) noexcept nogil
    @cython.locals(j=Py_ssize_t)
    cdef void accept(self) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t, count=Py_ssize_t, value=double, gap=double, rest=double, variance=double, centre=double)
    cdef void standardise(self, double total) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t)
    cdef void spread_sparse(self, double weight) noexcept nogil
    @cython.locals(k=Py_ssize_t, total=double)
    cdef double norm2(self) noexcept nogil
    @cython.locals(k=Py_ssize_t, total=double)
    cdef double step_score(self, Py_ssize_t f) noexcept nogil
    @cython.locals(k=Py_ssize_t)
    cdef void gradient_step(self, Py_ssize_t f, double step) noexcept nogil
    @cython.locals(k=Py_ssize_t)
    cdef void add_gradient(self, Py_ssize_t f, double slope) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t, gradient=double)
    cdef void adaptive_step(self, Py_ssize_t f, double slope, double rate) noexcept nogil
    @cython.locals(k=Py_ssize_t, total=double)
    cdef double diagonal_spread(self, Py_ssize_t f, double ridge) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t)
    cdef void diagonal_step(self, Py_ssize_t f, double ridge, double step, double curvature) noexcept nogil
    @cython.locals(j=Py_ssize_t, rate=double, top=double, total=double)
    cdef void exponentiated(self, Py_ssize_t f, double radius, double scale) noexcept nogil
