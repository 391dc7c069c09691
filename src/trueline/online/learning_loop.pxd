from libc.math cimport INFINITY, exp, fabs, log1p, pow, sqrt
from libc.stdint cimport int64_t

from trueline.data.row_access cimport Rows, begin, end, row_add, row_dot, row_norm2
from trueline.objective.loss_interface cimport Loss
from trueline.online.geometries cimport Geometry, pay, pay_all
from trueline.online.learner_state cimport LearnerState

cdef double LIMIT

cdef class Rule:
    cdef readonly Loss loss
    cdef readonly Geometry geometry
    cdef readonly double rate, power, l1, l2
    cdef readonly Py_ssize_t batch
    cdef readonly bint intercept, certify, average, penalised, lazy_mean
    cdef bint fits(self, LearnerState state) noexcept
    cdef double base(self, double round) noexcept nogil

cdef class Round:
    cdef double score, y, c, suffered, slope, norm2, share

cdef class Examples:
    cdef readonly Rows rows
    cdef const double[::1] y, weights
    cdef const int64_t[::1] order
    cdef readonly Py_ssize_t count
    cdef Round now

cpdef Py_ssize_t learn(Examples examples, Py_ssize_t start, Py_ssize_t stop, Rule rule, LearnerState state, double[::1] out) except -1
cdef Py_ssize_t run(Examples examples, Py_ssize_t start, Py_ssize_t stop, Rule rule, LearnerState state, double[::1] out) except -1 nogil
cdef int learn_row(Examples examples, Py_ssize_t i, double step, Rule rule, LearnerState state) except -1 nogil
cdef int move_plainly(Examples examples, Py_ssize_t i, double step, Rule rule, LearnerState state) except -1 nogil
cdef int count_row(Examples examples, Py_ssize_t i, Rule rule, LearnerState state) except -1 nogil
cdef int add_excess(Examples examples, double step, double before, double after, Rule rule, LearnerState state) except -1 nogil
cdef void note_row(Rows rows, Py_ssize_t i, double share, LearnerState state) noexcept nogil
cdef double frozen_score(Rows rows, Py_ssize_t i, const double[::1] weights) noexcept nogil
cdef int add_weights(Geometry geometry, double c, LearnerState state) except -1 nogil
cdef int finish(Rule rule, double step, LearnerState state) except -1 nogil
cpdef Py_ssize_t scores(Rows rows, Geometry geometry, LearnerState state, double[::1] out) except -1
cdef Py_ssize_t run_scores(Rows rows, Geometry geometry, LearnerState state, double[::1] out) except -1 nogil
cdef int fill_weights(Geometry geometry, LearnerState state, double[::1] out) except -1 nogil
cdef double risk_rows(Examples examples, Loss loss, const double[::1] u, double[::1] gradient) except? -1e300 nogil
