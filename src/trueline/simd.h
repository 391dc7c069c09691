// dot, add, gathered dot, products with and updates of the upper triangle of a symmetric matrix, and the moments of local fits: sums in a fixed order, so that every register width and every compiler gives the same bits
// (compile with -ffp-contract=off). Sixteen lanes, joined by halves; what is left of a row joins at 8, 4, 2 and 1.
// Nothing beyond the end is read. simd.py is the same in Python.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>

// Weights w = g·(1 − (r/h)³)³ of rows at distance r from q, g alone where r ≤ 0.001 h; t = (x − q)·inverse comes along.
#define TRICUBE(x, g, t, w)                                                                                       \
    const double gone = (x) - q, t = gone * inverse, third = fabs(gone) > near ? fabs(t) : 0.0;                   \
    const double left = 1.0 - third * (t * t), w = left * left * left * (g);

// With t = (x − q)·inverse, into strand k of sums s: Σw, Σwt, Σwt², Σwy, Σwyt.
#define LINE_SUMS(w, t, y, s, k)                                                                                  \
    {                                                                                                             \
        s[0][k] += w;                                                                                             \
        s[1][k] += w * t;                                                                                         \
        s[2][k] += w * t * t;                                                                                     \
        s[3][k] += w * y;                                                                                         \
        s[4][k] += w * y * t;                                                                                     \
    }
// Σw, Σwt, Σwt², Σwt³, Σwt⁴, Σwyt².
#define CURVE_SUMS(w, t, y, s, k)                                                                                 \
    {                                                                                                             \
        s[0][k] += w;                                                                                             \
        s[1][k] += w * t;                                                                                         \
        s[2][k] += w * (t * t);                                                                                   \
        s[3][k] += w * (t * t) * t;                                                                               \
        s[4][k] += w * (t * t) * (t * t);                                                                         \
        s[5][k] += w * (t * t) * y;                                                                               \
    }
// Rows walk through four strands, which are joined in pairs.
#define JOIN(SUMS) \
    for (int a = 0; a < SUMS; ++a) sums[a] = (strand[a][0] + strand[a][1]) + (strand[a][2] + strand[a][3]);
#define REST_OF_MOMENTS(SUMS, STEP)                                                                               \
    for (; j < n; ++j) {                                                                                          \
        const double t = (x[j] - q) * inverse;                                                                    \
        STEP(w[j], t, y[j], strand, (j & 3))                                                                      \
    }                                                                                                             \
    JOIN(SUMS)
#define REST_OF_TRICUBE                                                                                           \
    for (; j < n; ++j) {                                                                                          \
        TRICUBE(x[j], g[j], t, v)                                                                                 \
        w[j] = v;                                                                                                 \
        LINE_SUMS(v, t, y[j], strand, (j & 3))                                                                    \
    }                                                                                                             \
    JOIN(5)
#define MOMENTS(Register, WIDTH, SUMS, STEP, WEIGH, REST)                                                         \
    Register lane[SUMS][4 / WIDTH] = {{{0}}};                                                                     \
    double strand[SUMS][4];                                                                                       \
    ptrdiff_t j = 0;                                                                                              \
    for (; j + 4 <= n; j += 4)                                                                                    \
        for (int k = 0; k < 4 / WIDTH; ++k) {                                                                     \
            const Register z = *(const Register*)(y + j + k * WIDTH);                                             \
            WEIGH(Register, WIDTH)                                                                                \
            STEP(v, t, z, lane, k)                                                                                \
        }                                                                                                         \
    for (int a = 0; a < SUMS; ++a)                                                                                \
        for (int k = 0; k < 4 / WIDTH; ++k) *(Register*)(strand[a] + k * WIDTH) = lane[a][k];                     \
    REST
#define GIVEN_WEIGHTS(Register, WIDTH)                                                                            \
    const Register v = *(const Register*)(w + j + k * WIDTH);                                                     \
    const Register t = (*(const Register*)(x + j + k * WIDTH) - q) * inverse;
#define TRICUBE_WEIGHTS(Register, WIDTH)                                                                          \
    const Register gone = *(const Register*)(x + j + k * WIDTH) - q, t = gone * inverse;                          \
    const Register##Bits size = (Register##Bits)gone & 0x7fffffffffffffffLL, far = (Register)size > near;         \
    const Register third = (Register)((Register##Bits)t & far & 0x7fffffffffffffffLL);                            \
    const Register left = 1.0 - third * (t * t), v = left * left * left * *(const Register*)(g + j + k * WIDTH);  \
    *(Register*)(w + j + k * WIDTH) = v;

#if defined(__GNUC__)  // GCC, Clang, zig: registers of two doubles everywhere, of four where the processor has them
#define ALWAYS static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
typedef double Two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
typedef long long TwoBits __attribute__((vector_size(16)));
typedef long long FourBits __attribute__((vector_size(32)));

// The sum of what TERM gives at each of n places.
#define SUM(name, Register, WIDTH, TARGET, PARAMETERS, TERM)                                                      \
    TARGET static double name PARAMETERS {                                                                        \
        enum { N = 8 / WIDTH };                                                                                   \
        Register a[N] = {{0}}, b[N] = {{0}};                                                                      \
        double lane[8];                                                                                           \
        ptrdiff_t j = 0;                                                                                          \
        for (; j + 16 <= n; j += 16)                                                                              \
            for (int k = 0; k < N; ++k) {                                                                         \
                a[k] += TERM(Register, j + k * WIDTH);                                                            \
                b[k] += TERM(Register, j + 8 + k * WIDTH);                                                        \
            }                                                                                                     \
        if (n & 8) {                                                                                              \
            for (int k = 0; k < N; ++k) a[k] += TERM(Register, j + k * WIDTH);                                    \
            j += 8;                                                                                               \
        }                                                                                                         \
        for (int k = 0; k < N; ++k) *(Register*)(lane + k * WIDTH) = a[k] + b[k];                                 \
        Two low = *(const Two*)lane + *(const Two*)(lane + 4), high = *(const Two*)(lane + 2) + *(const Two*)(lane + 6); \
        if (n & 4) {                                                                                              \
            low += TERM(Two, j);                                                                                  \
            high += TERM(Two, j + 2);                                                                             \
            j += 4;                                                                                               \
        }                                                                                                         \
        low += high;                                                                                              \
        if (n & 2) {                                                                                              \
            low += TERM(Two, j);                                                                                  \
            j += 2;                                                                                               \
        }                                                                                                         \
        double sum = low[0] + low[1];                                                                             \
        return n & 1 ? sum + TERM(double, j) : sum;                                                               \
    }
#define OF_TWO(T, j) (*(const T*)(x + (j)) * *(const T*)(w + (j)))
#define OF_THREE(T, j) (*(const T*)(x + (j)) * *(const T*)(w + (j)) * *(const T*)(h + (j)))

#define WALKS(name, Register, WIDTH, TARGET)                                                                      \
    SUM(dot_##name, Register, WIDTH, TARGET, (const double* x, const double* w, ptrdiff_t n), OF_TWO)             \
    SUM(weighted_dot_##name, Register, WIDTH, TARGET, (const double* x, const double* w, const double* h, ptrdiff_t n), OF_THREE) \
    TARGET static void add_##name(const double* x, double scale, double* w, ptrdiff_t n) {                        \
        ptrdiff_t j = 0;                                                                                          \
        for (; j + WIDTH <= n; j += WIDTH) {                                                                      \
            PREFETCH(x + j + 512);                                                                                \
            *(Register*)(w + j) += *(const Register*)(x + j) * scale;                                             \
        }                                                                                                         \
        for (; j < n; ++j) w[j] += scale * x[j];                                                                  \
    }                                                                                                             \
    TARGET static double product_##name(const double* A, ptrdiff_t stride, const double* u, ptrdiff_t n, double* out) { \
        for (ptrdiff_t i = 0; i < n; ++i) out[i] = 0.0;                                                           \
        for (ptrdiff_t i = 0; i < n; ++i, A += stride) {                                                          \
            out[i] += dot_##name(A + i, u + i, n - i);                                                            \
            add_##name(A + i + 1, u[i], out + i + 1, n - i - 1);                                                  \
        }                                                                                                         \
        return dot_##name(out, u, n);                                                                             \
    }                                                                                                             \
    TARGET static void rank_one_##name(double* A, ptrdiff_t stride, const double* v, double scale, double inflate, ptrdiff_t n) { \
        for (ptrdiff_t i = 0; i < n; ++i, A += stride) {                                                          \
            const double s = scale * v[i];                                                                        \
            ptrdiff_t j = i;                                                                                      \
            if (inflate == 1.0) {                                                                                 \
                add_##name(v + i, -s, A + i, n - i);                                                              \
                continue;                                                                                         \
            }                                                                                                     \
            for (; j + WIDTH <= n; j += WIDTH)                                                                    \
                *(Register*)(A + j) = (*(const Register*)(A + j) - s * *(const Register*)(v + j)) * inflate;      \
            for (; j < n; ++j) A[j] = (A[j] - s * v[j]) * inflate;                                                \
        }                                                                                                         \
    }                                                                                                             \
    TARGET static void tricube_sums_##name(const double* x, const double* y, const double* g, double q, double h, \
                                           ptrdiff_t n, double* w, double* sums) {                                \
        const double inverse = h > 0.0 ? 1.0 / h : 0.0, near = 0.001 * h;                                         \
        MOMENTS(Register, WIDTH, 5, LINE_SUMS, TRICUBE_WEIGHTS, REST_OF_TRICUBE)                                  \
    }                                                                                                             \
    TARGET static void line_sums_##name(const double* x, const double* y, const double* w, double q, double inverse, \
                                        ptrdiff_t n, double* sums) {                                              \
        MOMENTS(Register, WIDTH, 5, LINE_SUMS, GIVEN_WEIGHTS, REST_OF_MOMENTS(5, LINE_SUMS))                      \
    }                                                                                                             \
    TARGET static void curve_sums_##name(const double* x, const double* y, const double* w, double q, double inverse, \
                                         ptrdiff_t n, double* sums) {                                             \
        MOMENTS(Register, WIDTH, 6, CURVE_SUMS, GIVEN_WEIGHTS, REST_OF_MOMENTS(6, CURVE_SUMS))                    \
    }

WALKS(base, Two, 2, )
#else  // any C compiler: the same lanes, one number at a time
#define ALWAYS static inline
#define PREFETCH(address)
#define SUM(name, PARAMETERS, TERM)                                                                               \
    static double name PARAMETERS {                                                                               \
        double lane[16] = {0};                                                                                    \
        ptrdiff_t j = 0;                                                                                          \
        for (; j + 16 <= n; j += 16)                                                                              \
            for (int k = 0; k < 16; ++k) lane[k] += TERM(j + k);                                                  \
        for (int size = 8; size; size /= 2) { /* what joins at 8 does so before its halves are added */           \
            if (size == 8) {                                                                                      \
                if (n & 8) for (int k = 0; k < 8; ++k) lane[k] += TERM(j + k);                                    \
                for (int k = 0; k < 8; ++k) lane[k] += lane[k + 8];                                               \
            } else {                                                                                              \
                for (int k = 0; k < size; ++k) lane[k] += lane[k + size];                                         \
                if (n & size) for (int k = 0; k < size; ++k) lane[k] += TERM(j + k);                              \
            }                                                                                                     \
            if (n & size) j += size;                                                                              \
        }                                                                                                         \
        return lane[0];                                                                                           \
    }
#define OF_TWO(j) (x[j] * w[j])
#define OF_THREE(j) (x[j] * w[j] * h[j])
SUM(dot_base, (const double* x, const double* w, ptrdiff_t n), OF_TWO)
SUM(weighted_dot_base, (const double* x, const double* w, const double* h, ptrdiff_t n), OF_THREE)
static void add_base(const double* x, double scale, double* w, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; ++j) w[j] += scale * x[j];
}
static double product_base(const double* A, ptrdiff_t stride, const double* u, ptrdiff_t n, double* out) {
    for (ptrdiff_t i = 0; i < n; ++i) out[i] = 0.0;
    for (ptrdiff_t i = 0; i < n; ++i, A += stride) {
        out[i] += dot_base(A + i, u + i, n - i);
        add_base(A + i + 1, u[i], out + i + 1, n - i - 1);
    }
    return dot_base(out, u, n);
}
static void rank_one_base(double* A, ptrdiff_t stride, const double* v, double scale, double inflate, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; ++i)
        for (ptrdiff_t j = i; j < n; ++j) A[i * stride + j] = (A[i * stride + j] - scale * v[i] * v[j]) * inflate;
}
static void tricube_sums_base(const double* x, const double* y, const double* g, double q, double h, ptrdiff_t n, double* w, double* sums) {
    const double inverse = h > 0.0 ? 1.0 / h : 0.0, near = 0.001 * h;
    double strand[5][4] = {{0}};
    ptrdiff_t j = 0;
    REST_OF_TRICUBE
}
static void line_sums_base(const double* x, const double* y, const double* w, double q, double inverse, ptrdiff_t n, double* sums) {
    double strand[5][4] = {{0}};
    ptrdiff_t j = 0;
    REST_OF_MOMENTS(5, LINE_SUMS)
}
static void curve_sums_base(const double* x, const double* y, const double* w, double q, double inverse, ptrdiff_t n, double* sums) {
    double strand[6][4] = {{0}};
    ptrdiff_t j = 0;
    REST_OF_MOMENTS(6, CURVE_SUMS)
}
#endif

static struct {
    double (*dot)(const double* x, const double* w, ptrdiff_t n);
    double (*weighted_dot)(const double* x, const double* w, const double* h, ptrdiff_t n);
    void (*add)(const double* x, double scale, double* w, ptrdiff_t n);
    double (*product)(const double* A, ptrdiff_t stride, const double* u, ptrdiff_t n, double* out);
    void (*rank_one)(double* A, ptrdiff_t stride, const double* v, double scale, double inflate, ptrdiff_t n);
    void (*tricube_sums)(const double* x, const double* y, const double* g, double q, double h, ptrdiff_t n, double* w, double* sums);
    void (*line_sums)(const double* x, const double* y, const double* w, double q, double inverse, ptrdiff_t n, double* sums);
    void (*curve_sums)(const double* x, const double* y, const double* w, double q, double inverse, ptrdiff_t n, double* sums);
} walks = {dot_base, weighted_dot_base, add_base, product_base, rank_one_base, tricube_sums_base, line_sums_base, curve_sums_base};

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
    walks.weighted_dot = weighted_dot_avx2;
    walks.add = add_avx2;
    walks.product = product_avx2;
    walks.rank_one = rank_one_avx2;
    walks.tricube_sums = tricube_sums_avx2;
    walks.line_sums = line_sums_avx2;
    walks.curve_sums = curve_sums_avx2;
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
