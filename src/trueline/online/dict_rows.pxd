from libc.math cimport NAN
from libc.stdint cimport int64_t

cdef double EXACT, LIMIT
cdef Py_ssize_t EXAMPLES
cdef object NUMPY_FLOATS, NUMPY_INTEGERS

cdef double plain(object value) except? -1

cdef class DictRow:
    cdef readonly list keys
    cdef readonly object columns, numbers
    cdef readonly Py_ssize_t size
    cdef double[::1] values
    cdef int64_t[::1] spots
    cpdef bint read(self, object features) except -1
    cdef bint read_by_key(self, dict features) except -1
    cdef bint put(self, Py_ssize_t k, object value) except -1

cdef class MixtureRow:
    cdef DictRow row
    cdef object rows, rounds, label, weight, learned
    cdef double[::1] y, totals
    cdef double[::1] out
    cdef Py_ssize_t classes
    cdef bint busy
    cdef object prediction(self)
