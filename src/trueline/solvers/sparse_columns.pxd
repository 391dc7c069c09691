from libc.stdint cimport int32_t, int64_t
from trueline.simd cimport row_add, row_dot, weighted_row_dot

ctypedef fused Real:
    float
    double

cdef class SparseSlices:
    cdef readonly tuple shape
    cdef readonly bint by_rows
    cdef readonly Py_ssize_t count, width
    cdef bint single
    cdef const float[::1] singles
    cdef const double[::1] doubles
    cdef const int32_t[::1] places
    cdef const int64_t[::1] starts
    cdef double dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef double square_dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef double weighted_dot(self, Py_ssize_t k, const double[:, ::1] pair) noexcept nogil
    cdef void add(self, Py_ssize_t k, double scale, double[::1] v) noexcept nogil
    cdef double square_sum(self, Py_ssize_t k) noexcept nogil
    cdef void clear(self, Py_ssize_t k, double[::1] v) noexcept nogil
    cdef void add_squares(self, Py_ssize_t k, double scale, double[::1] v) noexcept nogil
    cdef void add_beside(self, Py_ssize_t k, double scale, double[:, ::1] pair) noexcept nogil
    cpdef void dots(self, const double[::1] v, double[::1] out, Py_ssize_t start, Py_ssize_t stop) noexcept
    cpdef void square_dots(self, const double[::1] v, double[::1] out, Py_ssize_t start, Py_ssize_t stop) noexcept
    cpdef void adds(self, const double[::1] v, double[::1] out, Py_ssize_t start, Py_ssize_t stop) noexcept
    cpdef void square_adds(self, const double[::1] v, double[::1] out, Py_ssize_t start, Py_ssize_t stop) noexcept
    cpdef void count_entries(self, int32_t[::1] out, Py_ssize_t start, Py_ssize_t stop) noexcept
    cpdef bint repeats(self, int32_t[::1] last, Py_ssize_t start, Py_ssize_t stop) noexcept
    cpdef void pick(self, const int32_t[::1] rooms, int64_t[::1] cursor, double[::1] values, int32_t[::1] slices, Py_ssize_t start, Py_ssize_t stop) noexcept

cdef double sum_of_products(const Real[::1] values, const int32_t[::1] places, Py_ssize_t first, Py_ssize_t last, const double[::1] v) noexcept nogil
cdef double sum_of_weighted(const Real[::1] values, const int32_t[::1] places, Py_ssize_t first, Py_ssize_t last, const double[:, ::1] pair) noexcept nogil
cdef void add_products(const Real[::1] values, const int32_t[::1] places, Py_ssize_t first, Py_ssize_t last, double scale, double[::1] v) noexcept nogil

cdef class Columns:
    cdef readonly Py_ssize_t n
    cdef const double[::1] curvature
    cpdef void products(self, const int64_t[::1] rooms, const double[::1] v, double[::1] out) noexcept
    cpdef void sums(self, const int64_t[::1] rooms, const double[::1] h, double[::1] first, double[::1] second) noexcept
    cdef double dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef double square_dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef void add(self, Py_ssize_t k, double scale, double[::1] v) noexcept nogil
    cdef double weighted_dot(self, Py_ssize_t k) noexcept nogil
    cdef void move(self, Py_ssize_t k, double scale) noexcept nogil

cdef class DenseColumns(Columns):
    cdef const double[:, ::1] XT
    cdef double[::1] moved
    cdef double dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef double square_dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef void add(self, Py_ssize_t k, double scale, double[::1] v) noexcept nogil
    cdef double weighted_dot(self, Py_ssize_t k) noexcept nogil
    cdef void move(self, Py_ssize_t k, double scale) noexcept nogil

cdef class SparseColumns(Columns):
    cdef SparseSlices slices
    cdef double[:, ::1] pair
    cdef double dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef double square_dot(self, Py_ssize_t k, const double[::1] v) noexcept nogil
    cdef void add(self, Py_ssize_t k, double scale, double[::1] v) noexcept nogil
    cdef double weighted_dot(self, Py_ssize_t k) noexcept nogil
    cdef void move(self, Py_ssize_t k, double scale) noexcept nogil
