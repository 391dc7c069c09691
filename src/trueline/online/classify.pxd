cimport cython
from libc.math cimport INFINITY as inf, M_PI as pi, exp, log, sqrt
from libc.stdint cimport int64_t
from trueline.online.aggregate cimport mix_loss, posterior, redistribute
from trueline.online.members cimport Members

cdef Py_ssize_t EXAMPLES, WEIGHT, LAST, LOSS, MISTAKES, LARGEST_WEIGHT, NORM, RESTARTS, LAST_LABEL, LAST_PREDICTION, EXCESS
cdef Py_ssize_t TOTALS, CONSTANT, ADAPTIVE, DIAGONAL, SIMPLE
cdef double RADIUS, PRIOR, FLOOR, POOL_RATE

@cython.locals(c=Py_ssize_t, offset=Py_ssize_t, top=double, total=double)
cdef void softmax(const double[::1] scores, Py_ssize_t first, const double[::1] spread, Py_ssize_t classes, Py_ssize_t k, double[:, ::1] out) noexcept nogil
@cython.locals(r=Py_ssize_t, top=double, total=double)
cdef double rest(const double[::1] scores, Py_ssize_t first, Py_ssize_t own, Py_ssize_t s) noexcept nogil
cpdef double logistic(double x) noexcept nogil
@cython.locals(_=int, far=double, low=double, high=double, at=double, step=double, p=double, value=double, new=double)
cpdef double settle(double score, double offset, double reach, double hit) noexcept nogil

cdef class Classification:
    cdef Members each
    cdef double[::1] totals, losses, shares, tops, trust, scales, frequencies, scores, spreads, linear, moderate, mixing, charge, triple, top_charge
    cdef double[:, ::1] transitions, probabilities, levels, out
    cdef const int64_t[::1] starts
    cdef const double[::1] y, weights
    cdef Py_ssize_t count, filters, steps, own, classes
    @cython.locals(c=double, weight=double, label=Py_ssize_t, best=Py_ssize_t, j=Py_ssize_t, entered=bint)
    cdef void round(self, Py_ssize_t i, bint learning) noexcept nogil
    @cython.locals(last=Py_ssize_t, c=Py_ssize_t, f=Py_ssize_t, m=Py_ssize_t, k=Py_ssize_t, total=double, follow=double, q=double)
    cdef void predict_members(self) noexcept nogil
    cdef double log_probability(self, Py_ssize_t k, Py_ssize_t c) noexcept nogil
    @cython.locals(c=Py_ssize_t, k=Py_ssize_t, top=double, total=double, sum_of_logs=double)
    cdef void pool(self) noexcept nogil
    @cython.locals(j=Py_ssize_t, k=Py_ssize_t, gradient=double)
    cdef void adjust(self, Py_ssize_t label, double c) noexcept nogil
    @cython.locals(c=Py_ssize_t, k=Py_ssize_t, eta=double, static=double, shared=double)
    cdef void combine(self, Py_ssize_t i) noexcept nogil
    @cython.locals(k=Py_ssize_t, largest=double, eta=double, mixed=double)
    cdef void score(self, Py_ssize_t i, Py_ssize_t label, double c) noexcept nogil
    @cython.locals(f=Py_ssize_t, j=Py_ssize_t, m=Py_ssize_t, s=Py_ssize_t, forget=double, q=double, offset=double, hit=double, after=double, p=double, grown=bint)
    cdef void update_filters(self, Py_ssize_t label, double c, bint entered) noexcept nogil
    @cython.locals(f=Py_ssize_t, k=Py_ssize_t, m=Py_ssize_t, s=Py_ssize_t, target=Py_ssize_t, norm=double, largest=double, damp=double, pace=double, hit=double, slope=double, q=double, offset=double, after=double, p=double, reach=double)
    cdef void update_steps(self, Py_ssize_t label, double c) noexcept nogil
