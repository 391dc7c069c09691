# The C functions of simd.h for the .pxd files of kernels; simd.py is their twin for kernels that run uncompiled.
from libc.stdint cimport int32_t

cdef extern from "simd.h" nogil:
    double dot_ "walks.dot"(const double* x, const double* w, Py_ssize_t n) noexcept
    double weighted_dot_ "walks.weighted_dot"(const double* x, const double* w, const double* h, Py_ssize_t n) noexcept
    void add_ "walks.add"(const double* x, double scale, double* w, Py_ssize_t n) noexcept
    double gathered_dot_ "gathered_dot"(const double* values, const int32_t* indices, Py_ssize_t n, const double* w) noexcept
    double product_ "walks.product"(const double* A, Py_ssize_t stride, const double* u, Py_ssize_t n, double* out) noexcept
    void rank_one_ "walks.rank_one"(double* A, Py_ssize_t stride, const double* v, double scale, double inflate, Py_ssize_t n) noexcept
    void tricube_sums_ "walks.tricube_sums"(const double* x, const double* y, const double* g, double q, double h, Py_ssize_t n, double* w, double* sums) noexcept
    void line_sums_ "walks.line_sums"(const double* x, const double* y, const double* w, double q, double inverse, Py_ssize_t n, double* sums) noexcept
    void curve_sums_ "walks.curve_sums"(const double* x, const double* y, const double* w, double q, double inverse, Py_ssize_t n, double* sums) noexcept

cdef inline double dot(const double[::1] x, const double[::1] w, Py_ssize_t n) noexcept nogil:
    return dot_(&x[0], &w[0], n) if n else 0.0

cdef inline void add(const double[::1] x, double scale, double[::1] w, Py_ssize_t n) noexcept nogil:
    if n:
        add_(&x[0], scale, &w[0], n)

cdef inline double gathered_dot(const double[::1] values, const int32_t[::1] indices, Py_ssize_t first, Py_ssize_t last, const double[::1] w) noexcept nogil:
    return gathered_dot_(&values[first], &indices[first], last - first, &w[0]) if last > first else 0.0

cdef inline double row_dot(const double[:, ::1] A, Py_ssize_t i, Py_ssize_t first, const double[::1] w, Py_ssize_t n) noexcept nogil:
    return dot_(&A[i, first], &w[first], n) if n > 0 else 0.0

cdef inline double weighted_row_dot(const double[:, ::1] A, Py_ssize_t i, const double[::1] w, const double[::1] h, Py_ssize_t n) noexcept nogil:
    return weighted_dot_(&A[i, 0], &w[0], &h[0], n) if n > 0 else 0.0

cdef inline void row_add(const double[:, ::1] A, Py_ssize_t i, Py_ssize_t first, double scale, double[::1] w, Py_ssize_t n) noexcept nogil:
    if n > 0:
        add_(&A[i, first], scale, &w[first], n)

cdef inline double rows_dot(const double[:, ::1] A, Py_ssize_t i, const double[:, ::1] B, Py_ssize_t j, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    return dot_(&A[i, first], &B[j, first], n) if n > 0 else 0.0

cdef inline void rows_add(const double[:, ::1] A, Py_ssize_t i, double scale, double[:, ::1] B, Py_ssize_t j, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    if n > 0:
        add_(&A[i, first], scale, &B[j, first], n)

cdef inline double symmetric_product(const double[:, :, ::1] A, Py_ssize_t k, const double[::1] u, double[:, ::1] out, Py_ssize_t n) noexcept nogil:
    return product_(&A[k, 0, 0], A.shape[2], &u[0], n, &out[k, 0]) if n > 0 else 0.0

cdef inline void rank_one(double[:, :, ::1] A, Py_ssize_t k, const double[:, ::1] v, double scale, double inflate, Py_ssize_t n) noexcept nogil:
    if n > 0:
        rank_one_(&A[k, 0, 0], A.shape[2], &v[k, 0], scale, inflate, n)

cdef inline void tricube_sums(const double[::1] x, const double[::1] y, const double[::1] g, Py_ssize_t first, Py_ssize_t last, double q, double h, double[::1] w, double[::1] sums) noexcept nogil:
    tricube_sums_(&x[first], &y[first], &g[first], q, h, last - first, &w[first], &sums[0])

cdef inline void line_sums(const double[::1] x, const double[::1] y, const double[::1] w, Py_ssize_t first, Py_ssize_t last, double q, double inverse, double[::1] sums) noexcept nogil:
    line_sums_(&x[first], &y[first], &w[first], q, inverse, last - first, &sums[0])

cdef inline void curve_sums(const double[::1] x, const double[::1] y, const double[::1] w, Py_ssize_t first, Py_ssize_t last, double q, double inverse, double[::1] sums) noexcept nogil:
    curve_sums_(&x[first], &y[first], &w[first], q, inverse, last - first, &sums[0])
