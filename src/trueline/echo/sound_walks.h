// Walks over sound and its spectra: windows in single precision, rows of complex numbers as pairs of floats, and the
// rank-one step of recursive least squares. Sums are in a fixed order (32 lanes; what is left of a row goes to its lanes;
// joined by halves), all else is one number at a time, so every register width gives the same bits. sound_walks.py is
// the same in Python.
#pragma once
#include "simd.h"

#if defined(__GNUC__)
typedef float Float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float Float8 __attribute__((vector_size(32), aligned(4), may_alias));
#define FOUR_SUMS(Register, WIDTH)                                                                    \
    Register sums[32 / WIDTH] = {{0}};                                                                \
    for (; j + 32 <= n; j += 32)                                                                      \
        for (int k = 0; k < 32 / WIDTH; ++k)                                                          \
            sums[k] += *(const Register*)(x + j + k * WIDTH) * *(const Register*)(w + j + k * WIDTH); \
    for (int k = 0; k < 32 / WIDTH; ++k) *(Register*)(lane + k * WIDTH) = sums[k];
#else
#define FOUR_SUMS(Register, WIDTH)                                      \
    for (int k = 0; k < 32; ++k) lane[k] = 0;                           \
    for (; j + 32 <= n; j += 32)                                        \
        for (int k = 0; k < 32; ++k) lane[k] += x[j + k] * w[j + k];
#endif

#define SOUND_WALKS(name, Register, WIDTH, TARGET)                                                                    \
    TARGET static float single_dot_##name(const float* x, const float* w, ptrdiff_t n) {                              \
        float lane[32];                                                                                               \
        ptrdiff_t j = 0;                                                                                              \
        FOUR_SUMS(Register, WIDTH)                                                                                    \
        for (ptrdiff_t k = 0; j + k < n; ++k) lane[k] += x[j + k] * w[j + k];                                         \
        for (int size = 16; size; size /= 2)                                                                          \
            for (int k = 0; k < size; ++k) lane[k] += lane[k + size];                                                 \
        return lane[0];                                                                                               \
    }                                                                                                                 \
    TARGET static void single_add_##name(const float* __restrict x, float scale, float* __restrict w, ptrdiff_t n) {  \
        for (ptrdiff_t j = 0; j < n; ++j) w[j] += scale * x[j];                                                       \
    }                                                                                                                 \
    TARGET static void shrink_##name(const double* __restrict v, double scale, double grow, double* __restrict p, ptrdiff_t n) { \
        for (ptrdiff_t j = 0; j < n; ++j) p[j] = (p[j] - scale * v[j]) * grow;                                        \
    }

SOUND_WALKS(base, Float4, 4, )

static struct {
    float (*dot)(const float* x, const float* w, ptrdiff_t n);
    void (*add)(const float* x, float scale, float* w, ptrdiff_t n);
    void (*shrink)(const double* v, double scale, double grow, double* p, ptrdiff_t n);
} sound = {single_dot_base, single_add_base, shrink_base};

#if defined(__GNUC__) && defined(__x86_64__)
SOUND_WALKS(avx2, Float8, 8, __attribute__((target("avx2"))))
__attribute__((constructor)) static void choose_sound_walks(void) {
    if (!has_avx2()) return;
    sound.dot = single_dot_avx2;
    sound.add = single_add_avx2;
    sound.shrink = shrink_avx2;
}
#endif
