cdef class NamedFunction:
    cdef readonly object part, methods, remake
