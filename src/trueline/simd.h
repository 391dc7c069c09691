// dot, add and gathered dot: sums in a fixed order, so that every register width and every compiler gives the same bits
// (compile with -ffp-contract=off). Sixteen lanes, joined by halves; what is left of a row joins at 8, 4, 2 and 1.
// Nothing beyond the end is read. simd.py is the same in Python.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)  // GCC, Clang, zig: registers of two doubles everywhere, of four where the processor has them
#define ALWAYS static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
typedef double Two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));

#define WALKS(name, Register, WIDTH, TARGET)                                                                      \
    TARGET static double dot_##name(const double* x, const double* w, ptrdiff_t n) {                              \
        enum { N = 8 / WIDTH };                                                                                   \
        Register a[N] = {{0}}, b[N] = {{0}};                                                                      \
        double lane[8];                                                                                           \
        ptrdiff_t j = 0;                                                                                          \
        for (; j + 16 <= n; j += 16)                                                                              \
            for (int k = 0; k < N; ++k) {                                                                         \
                a[k] += *(const Register*)(x + j + k * WIDTH) * *(const Register*)(w + j + k * WIDTH);            \
                b[k] += *(const Register*)(x + j + 8 + k * WIDTH) * *(const Register*)(w + j + 8 + k * WIDTH);    \
            }                                                                                                     \
        if (n & 8) {                                                                                              \
            for (int k = 0; k < N; ++k)                                                                           \
                a[k] += *(const Register*)(x + j + k * WIDTH) * *(const Register*)(w + j + k * WIDTH);            \
            j += 8;                                                                                               \
        }                                                                                                         \
        for (int k = 0; k < N; ++k) *(Register*)(lane + k * WIDTH) = a[k] + b[k];                                 \
        Two low = *(const Two*)lane + *(const Two*)(lane + 4), high = *(const Two*)(lane + 2) + *(const Two*)(lane + 6); \
        if (n & 4) {                                                                                              \
            low += *(const Two*)(x + j) * *(const Two*)(w + j);                                                   \
            high += *(const Two*)(x + j + 2) * *(const Two*)(w + j + 2);                                          \
            j += 4;                                                                                               \
        }                                                                                                         \
        low += high;                                                                                              \
        if (n & 2) {                                                                                              \
            low += *(const Two*)(x + j) * *(const Two*)(w + j);                                                   \
            j += 2;                                                                                               \
        }                                                                                                         \
        double sum = low[0] + low[1];                                                                             \
        return n & 1 ? sum + x[j] * w[j] : sum;                                                                   \
    }                                                                                                             \
    TARGET static void add_##name(const double* x, double scale, double* w, ptrdiff_t n) {                        \
        ptrdiff_t j = 0;                                                                                          \
        for (; j + WIDTH <= n; j += WIDTH) {                                                                      \
            PREFETCH(x + j + 512);                                                                                \
            *(Register*)(w + j) += *(const Register*)(x + j) * scale;                                             \
        }                                                                                                         \
        for (; j < n; ++j) w[j] += scale * x[j];                                                                  \
    }

WALKS(base, Two, 2, )
#else  // any C compiler: the same lanes, one number at a time
#define ALWAYS static inline
#define PREFETCH(address)
static double dot_base(const double* x, const double* w, ptrdiff_t n) {
    double lane[16] = {0};
    ptrdiff_t j = 0;
    for (; j + 16 <= n; j += 16)
        for (int k = 0; k < 16; ++k) lane[k] += x[j + k] * w[j + k];
    for (int size = 8; size; size /= 2) {  // what joins at 8 does so before its halves are added
        if (size == 8) {
            if (n & 8) for (int k = 0; k < 8; ++k) lane[k] += x[j + k] * w[j + k];
            for (int k = 0; k < 8; ++k) lane[k] += lane[k + 8];
        } else {
            for (int k = 0; k < size; ++k) lane[k] += lane[k + size];
            if (n & size) for (int k = 0; k < size; ++k) lane[k] += x[j + k] * w[j + k];
        }
        if (n & size) j += size;
    }
    return lane[0];
}
static void add_base(const double* x, double scale, double* w, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; ++j) w[j] += scale * x[j];
}
#endif

static struct {
    double (*dot)(const double* x, const double* w, ptrdiff_t n);
    void (*add)(const double* x, double scale, double* w, ptrdiff_t n);
} walks = {dot_base, add_base};

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
WALKS(avx2, Four, 4, __attribute__((target("avx2"))))
static int has_avx2(void) {  // __builtin_cpu_supports does not link with zig
    unsigned a, b, c, d, saved;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0;  // whether the system keeps the wide registers
    __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    return (saved & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 5));
}
__attribute__((constructor)) static void choose_walks(void) {
    if (!has_avx2()) return;
    walks.dot = dot_avx2;
    walks.add = add_avx2;
}
#endif

// Σ values_k · w[indices_k] in four strands: a compiler would gather, which is slower.
ALWAYS double gathered_dot(const double* values, const int32_t* indices, ptrdiff_t n, const double* w) {
    double strand[4] = {0, 0, 0, 0};
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        PREFETCH(values + k + 512);
        PREFETCH(indices + k + 512);
        for (int i = 0; i < 4; ++i) strand[i] += values[k + i] * w[indices[k + i]];
    }
    for (; k < n; ++k) strand[0] += values[k] * w[indices[k]];
    return (strand[0] + strand[1]) + (strand[2] + strand[3]);
}
