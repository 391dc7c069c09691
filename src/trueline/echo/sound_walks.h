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

// Bodies that a compiler makes vectors of, for each register width: x, o, w, y, e,
// older, between and g are rows of complex numbers.
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
    }                                                                                                                  \
    TARGET static void covary_##name(IN x, IN o, IN c, OUT now, OUT then, OUT between, ptrdiff_t n) {                  \
        EACH(n) { /* now += ½c|x|², then += ½c|o|², between += ½c·x·conj(o) */                                         \
            float half = 0.5f * c[k];                                                                                  \
            now[k] += (R(x) * R(x) + I(x) * I(x)) * half;                                                              \
            then[k] += (R(o) * R(o) + I(o) * I(o)) * half;                                                             \
            R(between) += (R(x) * R(o) + I(x) * I(o)) * half;                                                          \
            I(between) += (I(x) * R(o) - R(x) * I(o)) * half;                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void answer_##name(IN now, IN then, IN between, IN noise, float floor, OUT e, OUT older,             \
                                     ptrdiff_t n) {                                                                    \
        EACH(n) { /* (e, older) ← S⁻¹(e, older), S = [now between; conj(between) then] */                              \
            float inverse = 1.0f / then[k], u = R(between) * inverse, v = I(between) * inverse;                        \
            float rest = now[k] - (u * R(between) + v * I(between));                                                   \
            rest = LARGER(rest, noise[k]);                                                                             \
            rest = 1.0f / LARGER(rest, floor);                                                                         \
            float real = (R(e) - (u * R(older) - v * I(older))) * rest;                                                \
            float imaginary = (I(e) - (u * I(older) + v * R(older))) * rest;                                           \
            R(e) = real;                                                                                               \
            I(e) = imaginary;                                                                                          \
            R(older) = (R(older) - (R(between) * real + I(between) * imaginary)) * inverse;                            \
            I(older) = (I(older) - (R(between) * imaginary - I(between) * real)) * inverse;                            \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void gradient_##name(IN x, IN o, IN e, IN older, IN c, OUT g, ptrdiff_t n) {                         \
        EACH(n) { /* g = c·(conj(x)·e + conj(o)·older) */                                                              \
            float real = R(x) * R(e) + I(x) * I(e) + (R(o) * R(older) + I(o) * I(older));                              \
            float imaginary = R(x) * I(e) - I(x) * R(e) + (R(o) * I(older) - I(o) * R(older));                         \
            R(g) = real * c[k];                                                                                        \
            I(g) = imaginary * c[k];                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void renew_##name(IN x, IN w, IN rate, IN least, float share, float keep2, OUT c, ptrdiff_t n) {     \
        EACH(n) { /* c ← keep2·(1 − rate·c|x|²)·c + (1 − keep2)|w|², at least share·least */                           \
            float shrink = 1.0f - rate[k] * c[k] * (R(x) * R(x) + I(x) * I(x));                                        \
            float next = keep2 * shrink * c[k] + (1.0f - keep2) * (R(w) * R(w) + I(w) * I(w));                         \
            float bound = share * least[k];                                                                            \
            c[k] = LARGER(next, bound);                                                                                \
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
    void (*covary)(IN x, IN o, IN c, OUT now, OUT then, OUT between, ptrdiff_t n);
    void (*answer)(IN now, IN then, IN between, IN noise, float floor, OUT e, OUT older, ptrdiff_t n);
    void (*gradient)(IN x, IN o, IN e, IN older, IN c, OUT g, ptrdiff_t n);
    void (*renew)(IN x, IN w, IN rate, IN least, float share, float keep2, OUT c, ptrdiff_t n);
} sound = {single_dot_base, single_add_base, shrink_base, product_add_base, power_add_base, turned_base,
           covary_base,     answer_base,     gradient_base, renew_base};

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
    sound.covary = covary_avx2;
    sound.answer = answer_avx2;
    sound.gradient = gradient_avx2;
    sound.renew = renew_avx2;
}
#endif
