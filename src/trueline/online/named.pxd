from libc.math cimport sqrt

from trueline.data.row_access cimport Rows
from trueline.online.dict_rows cimport DictRow, plain
from trueline.online.learner_state cimport LearnerState
from trueline.online.learning_loop cimport Examples, Rule, run

cdef double LIMIT

cdef class NamedRow:
    cdef DictRow reader
    cdef Rule rule
    cdef LearnerState state
    cdef readonly list keys
    cdef readonly object values, columns, y, share, out
    cdef readonly Rows rows
    cdef readonly Examples example, weighted
    cdef readonly bint dense
    cdef bint identity
    cdef int sign
    cdef double[::1] target, score
    cdef object waiting_of
    cdef double[:, ::1] waiting
    cpdef int count(self, object sums, double y, double weight, object shares) except -1
