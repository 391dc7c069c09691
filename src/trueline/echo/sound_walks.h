// Walks over sound and its spectra: windows in single precision, rows of complex numbers as pairs of floats, and the
// rank-one step of recursive least squares. Sums are in a fixed order (32 lanes; what is left of a row goes to its lanes;
// joined by halves), all else is one number at a time, so every register width gives the same bits. sound_walks.py is
// the same in Python.
#pragma once
#include "simd.h"

#if defined(__GNUC__)
typedef float Float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float Float8 __attribute__((vector_size(32), aligned(4), may_alias));
#define LANE_SUMS(Register, WIDTH)                                                                    \
    Register sums[32 / WIDTH] = {{0}};                                                                \
    for (; j + 32 <= n; j += 32)                                                                      \
        for (int k = 0; k < 32 / WIDTH; ++k)                                                          \
            sums[k] += *(const Register*)(x + j + k * WIDTH) * *(const Register*)(w + j + k * WIDTH); \
    for (int k = 0; k < 32 / WIDTH; ++k) *(Register*)(lane + k * WIDTH) = sums[k];
#else
#define LANE_SUMS(Register, WIDTH)                                      \
    for (int k = 0; k < 32; ++k) lane[k] = 0;                           \
    for (; j + 32 <= n; j += 32)                                        \
        for (int k = 0; k < 32; ++k) lane[k] += x[j + k] * w[j + k];
#endif

// Bodies that a compiler makes vectors of, for each register width: x, o, w, y, e, g and b are rows of complex numbers.
#define EACH(n) for (ptrdiff_t k = 0; k < n; ++k)
#define R(z) z[2 * k]
#define I(z) z[2 * k + 1]
#define IN const float* __restrict
#define OUT float* __restrict
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

#define SOUND_WALKS(name, Register, WIDTH, TARGET)                                                                     \
    TARGET static float single_dot_##name(const float* x, const float* w, ptrdiff_t n) {                               \
        float lane[32];                                                                                                \
        ptrdiff_t j = 0;                                                                                               \
        LANE_SUMS(Register, WIDTH)                                                                                     \
        for (ptrdiff_t k = 0; j + k < n; ++k) lane[k] += x[j + k] * w[j + k];                                          \
        for (int size = 16; size; size /= 2)                                                                           \
            for (int k = 0; k < size; ++k) lane[k] += lane[k + size];                                                  \
        return lane[0];                                                                                                \
    }                                                                                                                  \
    TARGET static void single_add_##name(IN x, float scale, OUT w, ptrdiff_t n) { EACH(n) w[k] += scale * x[k]; }      \
    TARGET static void shrink_##name(const double* __restrict v, double scale, double grow, double* __restrict p,      \
                                     ptrdiff_t n) {                                                                    \
        EACH(n) p[k] = (p[k] - scale * v[k]) * grow;                                                                   \
    }                                                                                                                  \
    TARGET static void product_add_##name(IN x, IN w, OUT y, ptrdiff_t n) { /* y += x·w */                             \
        EACH(n) {                                                                                                      \
            float real = R(x) * R(w) - I(x) * I(w), imaginary = R(x) * I(w) + I(x) * R(w);                             \
            R(y) += real;                                                                                              \
            I(y) += imaginary;                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void power_add_##name(IN x, OUT power, ptrdiff_t n) { /* power += ½|x|² */                           \
        EACH(n) power[k] += 0.5f * (R(x) * R(x) + I(x) * I(x));                                                        \
    }                                                                                                                  \
    TARGET static void turned_##name(IN x, IN e, OUT g, ptrdiff_t n) { /* g = conj(x)·e */                             \
        EACH(n) {                                                                                                      \
            float real = R(x) * R(e) + I(x) * I(e), imaginary = R(x) * I(e) - I(x) * R(e);                             \
            R(g) = real;                                                                                               \
            I(g) = imaginary;                                                                                          \
        }                                                                                                              \
    }

SOUND_WALKS(base, Float4, 4, )

static struct {
    float (*dot)(const float* x, const float* w, ptrdiff_t n);
    void (*add)(IN x, float scale, OUT w, ptrdiff_t n);
    void (*shrink)(const double* v, double scale, double grow, double* p, ptrdiff_t n);
    void (*product_add)(IN x, IN w, OUT y, ptrdiff_t n);
    void (*power_add)(IN x, OUT power, ptrdiff_t n);
    void (*turned)(IN x, IN e, OUT g, ptrdiff_t n);
} sound = {single_dot_base, single_add_base, shrink_base, product_add_base, power_add_base, turned_base};

#if defined(__GNUC__) && defined(__x86_64__)
SOUND_WALKS(avx2, Float8, 8, __attribute__((target("avx2"))))
__attribute__((constructor)) static void choose_sound_walks(void) {
    if (!has_avx2()) return;
    sound.dot = single_dot_avx2;
    sound.add = single_add_avx2;
    sound.shrink = shrink_avx2;
    sound.product_add = product_add_avx2;
    sound.power_add = power_add_avx2;
    sound.turned = turned_avx2;
}
#endif
