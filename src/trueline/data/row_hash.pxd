from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define ROW_HASH_SIGN 0x8000000000000000ULL
    #define ROW_HASH_EXPONENT 0x7FF0000000000000ULL
    #define ROW_HASH_STIRRER 0xBF58476D1CE4E5B9ULL
    #define ROW_HASH_WHOLE 0xFFFFFFFFFFFFFFFFULL
    """
    const uint64_t SIGN "ROW_HASH_SIGN"
    const uint64_t EXPONENT "ROW_HASH_EXPONENT"
    const uint64_t STIRRER "ROW_HASH_STIRRER"
    const uint64_t WHOLE "ROW_HASH_WHOLE"

cdef inline uint64_t whole(uint64_t number) noexcept nogil:
    return number

cpdef bint add_column(const uint64_t[::1] bits, unsigned long long factor, uint64_t[::1] total) noexcept
cpdef void add_rows(const uint64_t[:, ::1] bits, const uint64_t[::1] factors, uint64_t[::1] total) noexcept
cpdef void stir(uint64_t[::1] h, const uint64_t[::1] bits) noexcept
