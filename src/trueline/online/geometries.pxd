from libc.math cimport INFINITY, copysign, exp, fabs, sqrt

from trueline.data.row_access cimport Rows, begin, column, end, row_add, row_dot, row_norm2
from trueline.objective.loss_interface cimport Loss
from trueline.online.learner_state cimport LearnerState

cdef class Geometry:
    cdef readonly bint linked, adaptive, normed, plain
    cdef double score(self, Rows rows, Py_ssize_t i, LearnerState state) except? -1e300 with gil
    cdef double weight(self, Py_ssize_t j, LearnerState state) except? -1e300 with gil
    cdef double step(self, double rate, double norm2) except? -1e300 with gil
    cdef double slope(self, Loss loss, double score, double y, double gain) except? -1e300 with gil
    cdef int move(self, Rows rows, Py_ssize_t i, double slope, double step, LearnerState state) except -1 with gil
    cdef int move_one(self, Py_ssize_t j, double gradient, double step, LearnerState state) except -1 with gil
    cdef double excess(self, Loss loss, double score, double y, double slope, double norm2, double step, double before, double after) except? -1e300 with gil
    cdef double conjugate(self, LearnerState state) except? -1e300 with gil
    cdef int sum_masses(self, LearnerState state) except -1 with gil
    cdef double lowest(self, LearnerState state) except? -1e300 with gil

cdef class Additive(Geometry):
    cdef double score(self, Rows rows, Py_ssize_t i, LearnerState state) except? -1e300 nogil
    cdef double weight(self, Py_ssize_t j, LearnerState state) except? -1e300 nogil
    cdef double step(self, double rate, double norm2) except? -1e300 nogil
    cdef double slope(self, Loss loss, double score, double y, double gain) except? -1e300 nogil
    cdef int move(self, Rows rows, Py_ssize_t i, double slope, double step, LearnerState state) except -1 nogil
    cdef int move_one(self, Py_ssize_t j, double gradient, double step, LearnerState state) except -1 nogil
    cdef double excess(self, Loss loss, double score, double y, double slope, double norm2, double step, double before, double after) except? -1e300 nogil
    cdef double conjugate(self, LearnerState state) except? -1e300 nogil
    cdef int sum_masses(self, LearnerState state) except -1 nogil
    cdef double lowest(self, LearnerState state) except? -1e300 nogil

cdef class Normalised(Additive):
    cdef readonly double epsilon
    cdef double step(self, double rate, double norm2) except? -1e300 nogil

cdef class Implicit(Additive):
    cdef double slope(self, Loss loss, double score, double y, double gain) except? -1e300 nogil
    cdef double excess(self, Loss loss, double score, double y, double slope, double norm2, double step, double before, double after) except? -1e300 nogil

cdef class Adaptive(Additive):
    cdef readonly double epsilon
    cdef int move(self, Rows rows, Py_ssize_t i, double slope, double step, LearnerState state) except -1 nogil
    cdef int move_one(self, Py_ssize_t j, double gradient, double step, LearnerState state) except -1 nogil
    cdef double excess(self, Loss loss, double score, double y, double slope, double norm2, double step, double before, double after) except? -1e300 nogil

cdef double paid(double w, double shrunk, double cut, double shrink, double threshold) noexcept nogil
cdef double settled(Py_ssize_t j, LearnerState state) noexcept nogil
cdef void pay(Rows rows, Py_ssize_t i, LearnerState state) noexcept nogil
cdef void pay_all(LearnerState state) noexcept nogil
cdef double owing_score(Rows rows, Py_ssize_t i, LearnerState state) noexcept nogil
cdef void adapt(Py_ssize_t j, double gradient, double step, double epsilon, LearnerState state) noexcept nogil
cdef void adapt_row(Rows rows, Py_ssize_t i, double slope, double step, double epsilon, LearnerState state) noexcept nogil
cdef double implicit_slope(Loss loss, double score, double y, double gain) except? -1e300 nogil
