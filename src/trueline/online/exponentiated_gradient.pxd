from libc.math cimport INFINITY, exp, fabs, log
from libc.stdint cimport int32_t

from trueline.data.row_access cimport Rows, begin, column, end, row_dot
from trueline.objective.loss_interface cimport Loss
from trueline.online.geometries cimport Geometry
from trueline.online.learner_state cimport LearnerState

cdef double FAR
ctypedef double (*OneNumber)(double) noexcept nogil
ctypedef double (*TwoNumbers)(double, double) noexcept nogil

cdef inline bint is_finite(double v) noexcept nogil:
    return v - v == 0.0

cdef inline OneNumber one_number(size_t address) noexcept:
    return <OneNumber>address

cdef inline TwoNumbers two_numbers(size_t address) noexcept:
    return <TwoNumbers>address

cdef class Linked(Geometry):
    cdef readonly double scale
    cdef double mass(self, double dual, double shift) except? -1e300 nogil
    cdef double link(self, double dual, LearnerState state) except? -1e300 nogil
    cdef double height(self, double dual) except? -1e300 nogil
    cdef double score(self, Rows rows, Py_ssize_t i, LearnerState state) except? -1e300 nogil
    cdef double weight(self, Py_ssize_t j, LearnerState state) except? -1e300 nogil
    cdef int move(self, Rows rows, Py_ssize_t i, double slope, double step, LearnerState state) except -1 nogil
    cdef int move_one(self, Py_ssize_t j, double gradient, double step, LearnerState state) except -1 nogil
    cdef double conjugate(self, LearnerState state) except? -1e300 nogil
    cdef int sum_masses(self, LearnerState state) except -1 nogil
    cdef double lowest(self, LearnerState state) except? -1e300 nogil
    cdef double excess(self, Loss loss, double score, double y, double slope, double norm2, double step, double before, double after) except? -1e300 nogil

cdef class Multiplicative(Linked):
    cdef double mass(self, double dual, double shift) except? -1e300 nogil
    cdef double link(self, double dual, LearnerState state) except? -1e300 nogil
    cdef double height(self, double dual) except? -1e300 nogil

cdef class SignedMultiplicative(Linked):
    cdef readonly double radius
    cdef double mass(self, double dual, double shift) except? -1e300 nogil
    cdef double link(self, double dual, LearnerState state) except? -1e300 nogil
    cdef double height(self, double dual) except? -1e300 nogil

cdef class Mirrored(Linked):
    cdef readonly object map
    cdef object remake, find
    cdef OneNumber mass_at, conjugate_at
    cdef TwoNumbers weight_at
    cdef double mass(self, double dual, double shift) except? -1e300 nogil
    cdef double link(self, double dual, LearnerState state) except? -1e300 nogil
    cdef double conjugate(self, LearnerState state) except? -1e300 nogil
    cdef double mass_again(self, double dual) except? -1e300 with gil
    cdef double link_again(self, double dual, double total) except? -1e300 with gil
    cdef double conjugate_again(self, double total) except? -1e300 with gil

cdef class OwnGeometry(Linked):
    cdef readonly object part
    cdef double mass(self, double dual, double shift) except? -1e300 with gil
    cdef double link(self, double dual, LearnerState state) except? -1e300 with gil
    cdef double height(self, double dual) except? -1e300 with gil
    cdef double step(self, double rate, double norm2) except? -1e300 with gil
    cdef double slope(self, Loss loss, double score, double y, double gain) except? -1e300 with gil
    cdef double score(self, Rows rows, Py_ssize_t i, LearnerState state) except? -1e300 with gil
    cdef double weight(self, Py_ssize_t j, LearnerState state) except? -1e300 with gil
    cdef int move(self, Rows rows, Py_ssize_t i, double slope, double step, LearnerState state) except -1 with gil
    cdef int move_one(self, Py_ssize_t j, double gradient, double step, LearnerState state) except -1 with gil
    cdef double conjugate(self, LearnerState state) except? -1e300 with gil
    cdef int sum_masses(self, LearnerState state) except -1 with gil
    cdef double excess(self, Loss loss, double score, double y, double slope, double norm2, double step, double before, double after) except? -1e300 with gil
