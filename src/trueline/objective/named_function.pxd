cdef class NamedFunction:
    cdef readonly object own, methods, remake
