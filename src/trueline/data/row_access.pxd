from libc.stdint cimport int32_t, int64_t
from trueline.simd cimport dot_, add_, gathered_dot_

cdef class Rows:
    cdef const double[::1] values
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] starts
    cdef readonly Py_ssize_t count, width
    cdef readonly bint dense

cdef inline Py_ssize_t begin(Rows rows, Py_ssize_t i) noexcept nogil:
    return i * rows.width if rows.dense else rows.starts[i]

cdef inline Py_ssize_t end(Rows rows, Py_ssize_t i) noexcept nogil:
    return (i + 1) * rows.width if rows.dense else rows.starts[i + 1]

cdef inline Py_ssize_t column(Rows rows, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    return k - i * rows.width if rows.dense else rows.indices[k]

cdef inline double row_dot(Rows rows, Py_ssize_t i, const double[::1] w, Py_ssize_t first) noexcept nogil:
    cdef Py_ssize_t k = begin(rows, i), n = end(rows, i) - k
    if n == 0:
        return 0.0
    return dot_(&rows.values[k], &w[first], n) if rows.dense else gathered_dot_(&rows.values[k], &rows.indices[k], n, &w[first])

cdef inline void row_add(Rows rows, Py_ssize_t i, double scale, double[::1] w, Py_ssize_t first) noexcept nogil:
    cdef Py_ssize_t k = begin(rows, i), stop = end(rows, i)
    if rows.dense:
        if stop > k:
            add_(&rows.values[k], scale, &w[first], stop - k)
    else:
        for k in range(k, stop):
            w[first + rows.indices[k]] += scale * rows.values[k]

cdef inline double row_norm2(Rows rows, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t k = begin(rows, i), n = end(rows, i) - k
    return dot_(&rows.values[k], &rows.values[k], n) if n > 0 else 0.0
