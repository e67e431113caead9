/* Vectors of 16 and 32 bytes of text, for the scanners: AVX2 on x86-64, NEON on aarch64.
 *
 * QUIVER_VECTORS is their name; a machine without them has the scalar scanner alone. Every
 * aarch64 machine has NEON, but an x86-64 machine is asked for AVX2 at run time. A load needs no
 * alignment.
 */
#ifndef QUIVER_VECTORS_H
#define QUIVER_VECTORS_H

#include "rows.h"

#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define QUIVER_VECTORS "avx2"
#define QUIVER_TARGET __attribute__((target("avx2")))
typedef __m128i quiver_16;
typedef __m256i quiver_32;
#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#define QUIVER_VECTORS "neon"
#define QUIVER_TARGET
typedef uint8x16_t quiver_16;
typedef struct {
  uint8x16_t first, second;
} quiver_32;
#endif

#ifdef QUIVER_VECTORS

#define QUIVER_TIME_DIGITS 13

typedef struct {
  int64_t first, second;
} quiver_numbers;

/* The 16 bytes from `digits` on move that number of digits to the end, after zeros: an index
 * with a set high bit makes a zero. */
static const unsigned char quiver_right_align[32] = {128, 128, 128, 128, 128, 128, 128, 128, 128,
  128, 128, 128, 128, 128, 128, 128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#endif

#if defined(__x86_64__) && defined(__GNUC__)

static inline int quiver_has_vectors(void) {
  return __builtin_cpu_supports("avx2");
}

QUIVER_TARGET static inline quiver_16 quiver_load16(quiver_text text) {
  return _mm_loadu_si128((const __m128i *) text);
}

QUIVER_TARGET static inline quiver_32 quiver_load32(quiver_text text) {
  return _mm256_loadu_si256((const __m256i *) text);
}

/* Load 16 bytes from each of two places. */
QUIVER_TARGET static inline quiver_32 quiver_load_pair(quiver_text first, quiver_text second) {
  return _mm256_inserti128_si256(
    _mm256_castsi128_si256(quiver_load16(first)), quiver_load16(second), 1);
}

QUIVER_TARGET static inline quiver_32 quiver_add32(quiver_32 text, quiver_32 step) {
  return _mm256_add_epi8(text, step);
}

/* Say whether the first two texts are equal, and the last two. */
QUIVER_TARGET static inline int quiver_are_same(
  quiver_32 one, quiver_32 other, quiver_32 more, quiver_32 others) {
  return _mm256_movemask_epi8(
           _mm256_and_si256(_mm256_cmpeq_epi8(one, other), _mm256_cmpeq_epi8(more, others))) == -1;
}

/* Return the values of 16 bytes as digits: those of other bytes are above 9. */
QUIVER_TARGET static inline quiver_16 quiver_values16(quiver_text text) {
  return _mm_sub_epi8(quiver_load16(text), _mm_set1_epi8('0'));
}

QUIVER_TARGET static inline quiver_32 quiver_values32(quiver_text first, quiver_text second) {
  return _mm256_sub_epi8(quiver_load_pair(first, second), _mm256_set1_epi8('0'));
}

/* Return a bit for each byte, set for a digit. */
QUIVER_TARGET static inline unsigned quiver_decimal16(quiver_16 values) {
  return (unsigned) _mm_movemask_epi8(
    _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values));
}

/* Count the digits at the beginning. */
QUIVER_TARGET static inline unsigned quiver_count_digits(quiver_16 values) {
  return (unsigned) __builtin_ctz(~quiver_decimal16(values));
}

/* Say whether the text begins with the digits of a time. */
QUIVER_TARGET static inline int quiver_is_time(quiver_16 values) {
  const unsigned digits = (1u << QUIVER_TIME_DIGITS) - 1;
  return (quiver_decimal16(values) & digits) == digits;
}

/* The same for the second text, and for the first one unless that is an id. */
QUIVER_TARGET static inline int quiver_are_times(quiver_32 values, int with_id) {
  const unsigned second = (1u << QUIVER_TIME_DIGITS) - 1;
  const unsigned digits = (with_id ? 0 : second) | second << 16;
  unsigned decimal = (unsigned) _mm256_movemask_epi8(
    _mm256_cmpeq_epi8(_mm256_min_epu8(values, _mm256_set1_epi8(9)), values));
  return (decimal & digits) == digits;
}

/* From 8 digits in each of two 32-bit numbers: the first is the low one. */
static inline int64_t quiver_halves(int64_t halves) {
  return (int64_t) (uint32_t) halves * 100000000 + (int64_t) ((uint64_t) halves >> 32);
}

/* Return the number of the digits at the beginning. */
QUIVER_TARGET static inline int64_t quiver_number(quiver_16 values, unsigned digits) {
  values = _mm_shuffle_epi8(values, quiver_load16(quiver_right_align + digits));
  values = _mm_maddubs_epi16(values, _mm_set1_epi16(10 | 1 << 8));
  values = _mm_madd_epi16(values, _mm_set1_epi32(100 | 1 << 16));
  values = _mm_madd_epi16(_mm_packus_epi32(values, values), _mm_set1_epi32(10000 | 1 << 16));
  return quiver_halves(_mm_cvtsi128_si64(values));
}

QUIVER_TARGET static inline quiver_numbers quiver_two_numbers(
  quiver_32 values, unsigned first, unsigned second) {
  values = _mm256_shuffle_epi8(
    values, quiver_load_pair(quiver_right_align + first, quiver_right_align + second));
  values = _mm256_maddubs_epi16(values, _mm256_set1_epi16(10 | 1 << 8));
  values = _mm256_madd_epi16(values, _mm256_set1_epi32(100 | 1 << 16));
  values =
    _mm256_madd_epi16(_mm256_packus_epi32(values, values), _mm256_set1_epi32(10000 | 1 << 16));
  return (quiver_numbers) {quiver_halves(_mm_cvtsi128_si64(_mm256_castsi256_si128(values))),
    quiver_halves(_mm_cvtsi128_si64(_mm256_extracti128_si256(values, 1)))};
}

/* The same functions of NEON. */
#elif defined(QUIVER_VECTORS)

static inline int quiver_has_vectors(void) {
  return 1;
}

static inline quiver_32 quiver_load32(quiver_text text) {
  return (quiver_32) {vld1q_u8(text), vld1q_u8(text + 16)};
}

static inline quiver_32 quiver_load_pair(quiver_text first, quiver_text second) {
  return (quiver_32) {vld1q_u8(first), vld1q_u8(second)};
}

static inline quiver_32 quiver_add32(quiver_32 text, quiver_32 step) {
  return (quiver_32) {vaddq_u8(text.first, step.first), vaddq_u8(text.second, step.second)};
}

static inline int quiver_are_same(
  quiver_32 one, quiver_32 other, quiver_32 more, quiver_32 others) {
  uint8x16_t differ =
    vorrq_u8(vorrq_u8(veorq_u8(one.first, other.first), veorq_u8(one.second, other.second)),
      vorrq_u8(veorq_u8(more.first, others.first), veorq_u8(more.second, others.second)));
  return vmaxvq_u32(vreinterpretq_u32_u8(differ)) == 0;
}

static inline quiver_16 quiver_values16(quiver_text text) {
  return vsubq_u8(vld1q_u8(text), vdupq_n_u8('0'));
}

static inline quiver_32 quiver_values32(quiver_text first, quiver_text second) {
  return (quiver_32) {quiver_values16(first), quiver_values16(second)};
}

static inline unsigned quiver_count_digits(quiver_16 values) {
  /* Four bits for each byte, set for all but digits. */
  uint16x8_t others = vreinterpretq_u16_u8(vcgtq_u8(values, vdupq_n_u8(9)));
  uint64_t bits = vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(others, 4)), 0);
  return bits == 0 ? 16 : (unsigned) __builtin_ctzll(bits) / 4;
}

static inline quiver_16 quiver_align_right(quiver_16 values, unsigned digits) {
  return vqtbl1q_u8(values, vld1q_u8(quiver_right_align + digits));
}

static inline int quiver_is_time(quiver_16 values) {
  return vmaxvq_u8(quiver_align_right(values, QUIVER_TIME_DIGITS)) <= 9;
}

static inline int quiver_are_times(quiver_32 values, int with_id) {
  quiver_16 digits = quiver_align_right(values.second, QUIVER_TIME_DIGITS);
  if (!with_id) digits = vmaxq_u8(digits, quiver_align_right(values.first, QUIVER_TIME_DIGITS));
  return vmaxvq_u8(digits) <= 9;
}

static inline int64_t quiver_number(quiver_16 values, unsigned digits) {
  const uint8x16_t tens = vreinterpretq_u8_u16(vdupq_n_u16(10 | 1 << 8));
  const uint16x8_t hundreds = vreinterpretq_u16_u32(vdupq_n_u32(100 | 1 << 16));
  const uint32x4_t myriads = vreinterpretq_u32_u64(vdupq_n_u64(10000 | 1ull << 32));
  uint16x8_t twos = vpaddlq_u8(vmulq_u8(quiver_align_right(values, digits), tens));
  uint32x4_t fours = vpaddlq_u16(vmulq_u16(twos, hundreds));
  uint64x2_t eights = vpaddlq_u32(vmulq_u32(fours, myriads));
  return (int64_t) (vgetq_lane_u64(eights, 0) * 100000000 + vgetq_lane_u64(eights, 1));
}

static inline quiver_numbers quiver_two_numbers(quiver_32 values, unsigned first, unsigned second) {
  return (quiver_numbers) {
    quiver_number(values.first, first), quiver_number(values.second, second)};
}
#endif

#endif
