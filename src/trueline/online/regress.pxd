cimport cython
from libc.math cimport INFINITY as inf, sqrt
from libc.stdint cimport int64_t
from trueline.online.aggregate cimport average, excess, mix_loss, pool_step, posterior, rate, recent_weights, redistribute, remember, share_loss
from trueline.online.members cimport Members

cdef Py_ssize_t EXAMPLES, WEIGHT, LOW, HIGH, ORIGIN, LAST, MEAN, SQUARES, GAP_STATIC, GAP_SHARE, GAP_TOP, LOSS, FIRST_LOSS, OVERSHOOT
cdef Py_ssize_t CAPPED_EXCESS, CAPPED, RESTARTS, LARGEST_WEIGHT, NORM, LAST_LABEL, LAST_PREDICTION, MARGIN_LOW, MARGIN_HIGH, MARGIN_WORST
cdef Py_ssize_t TOTALS, NORMALISED, ADAPTIVE, CONSTANT, LEVELS, SIMPLE
cdef double REACH

cdef double clip(double value, double low, double high) noexcept nogil

cdef class Regression:
    cdef Members each
    cdef double[::1] totals, losses, shares, recent, pool, tops, predictions, mixing, charge, level, trust, top_charge, out, capped
    cdef double[:, ::1] ledger
    cdef const int64_t[::1] starts
    cdef const double[::1] y, weights
    cdef Py_ssize_t count, filters, twinned, steps, levels
    @cython.locals(k=Py_ssize_t, c=double, p=double, y=double, label=double, reach=double, loss=double, gap=double, over=double, first=bint)
    cdef void round(self, Py_ssize_t i, bint learning) noexcept nogil
    @cython.locals(above=double)
    cdef double overshoot(self, double label) noexcept nogil
    @cython.locals(worst=double)
    cdef void widen(self, double label) noexcept nogil
    @cython.locals(f=Py_ssize_t, at=Py_ssize_t, low=double, high=double, origin=double, mean=double)
    cdef void predict_members(self) noexcept nogil
    cdef double combine(self) noexcept nogil
    @cython.locals(k=Py_ssize_t, gap=double, eta=double, eta_share=double, static_loss=double, shared_loss=double, top_loss=double, least=double)
    cdef void score(self, double y, double c, double p) noexcept nogil
    @cython.locals(f=Py_ssize_t, weight=double, number=double)
    cdef void update(self, double label, double c) noexcept nogil
    @cython.locals(f=Py_ssize_t, weight=double, norm=double, usual=double, deviation=double, error=double, pace=double, ridge=double, q=double)
    cdef void update_steps(self, double y, double c) noexcept nogil
    @cython.locals(f=Py_ssize_t, j=Py_ssize_t, total=double, origin=double, low=double, high=double, delta=double, prediction=double, error=double, q=double, made=double, now=double, forget=double, raised=bint)
    cdef void update_filters(self, double label, double c) noexcept nogil
