/* Scanners for lines that repeat, in the instruction sets that the machine has.
 *
 * Two facts make run-length records fast. Lines of one width repeat as long as the text
 * equals itself one width further on, which is a plain search for the first mismatch. And
 * ten lines in a row with ids that count up differ only in one digit: the next text is
 * the last text plus a constant.
 *
 * Only the takers (ms_lines.h, id_lines.h) read outside of [line, end).
 */
#ifndef QUIVER_RUNS_H
#define QUIVER_RUNS_H

#include "id_lines.h"
#include "ms_lines.h"
#include "repeats.h"
#include "rows.h"
#include "vectors.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  const char *name;
  quiver_repeats_fn repeats;
  quiver_successors_fn successors;
  /* Takers of lines in milliseconds, v3 and with ids; NULL if they are no faster than one
   * line at a time. */
  quiver_take_fn take_ms_received, take_ms_sent, take_id_received, take_id_sent;
} quiver_scanner;

/* ---- any machine ----------------------------------------------------------------- */

/* Count the number up past a last digit of 9; 0 if it would take one more digit. */
static inline int quiver_carry(unsigned char *text, size_t first, size_t last) {
  while (text[last] == '9') {
    text[last] = '0';
    if (last == first) return 0;
    last--;
  }
  text[last]++;
  return 1;
}

static size_t quiver_successors_scalar(
  quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
  unsigned char expected[QUIVER_WIDEST_SUCCESSOR];
  size_t count = 0;
  quiver_text next = line + width;
  if (width > sizeof expected) return 0;
  memcpy(expected, line, width);
  for (; (size_t) (end - next) >= width; count++, next += width) {
    if (!quiver_carry(expected, first, last)) break;
    if (memcmp(expected, next, width) != 0) break;
  }
  return count;
}

#ifdef QUIVER_VECTORS

/* ---- AVX2 or NEON ---------------------------------------------------------------- */

/* A line of 16 to 64 bytes is two vectors that may overlap; those of a line that is not wide
 * have 16 bytes, and are loaded as one. */
QUIVER_TARGET static inline __attribute__((always_inline)) size_t quiver_successors_of(
  quiver_text line, size_t width, size_t first, size_t last, quiver_text end, int wide) {
  unsigned char one[QUIVER_WIDEST_SUCCESSOR] = {0}, text[QUIVER_WIDEST_SUCCESSOR];
  size_t count = 0, back = width - (wide ? 32 : 16);
  unsigned char digit = line[last];
  quiver_text next = line + width;
  one[last] = 1;
  memcpy(text, line, width);
  quiver_32 head_step = wide ? quiver_load32(one) : quiver_load_pair(one, one + back);
  quiver_32 head = wide ? quiver_load32(line) : quiver_load_pair(line, line + back);
  quiver_32 tail_step = wide ? quiver_load32(one + back) : head_step;
  quiver_32 tail = wide ? quiver_load32(line + back) : head;
  for (; (size_t) (end - next) >= width; count++, next += width) {
    if (digit == '9') {
      text[last] = digit;
      if (!quiver_carry(text, first, last)) break;
      digit = '0';
      head = wide ? quiver_load32(text) : quiver_load_pair(text, text + back);
      tail = wide ? quiver_load32(text + back) : head;
    } else {
      digit++;
      head = quiver_add32(head, head_step);
      tail = quiver_add32(tail, tail_step);
    }
    quiver_32 next_head = wide ? quiver_load32(next) : quiver_load_pair(next, next + back);
    quiver_32 next_tail = wide ? quiver_load32(next + back) : next_head;
    if (!quiver_are_same(head, next_head, tail, next_tail)) break;
  }
  return count;
}

QUIVER_TARGET static size_t quiver_successors_vectors(
  quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
  if (width < 16 || width > QUIVER_WIDEST_SUCCESSOR)
    return quiver_successors_scalar(line, width, first, last, end);
  if (width < 32) return quiver_successors_of(line, width, first, last, end, 0);
  return quiver_successors_of(line, width, first, last, end, 1);
}
#endif

#if defined(__x86_64__) && defined(__GNUC__)

/* ---- AVX-512 --------------------------------------------------------------------- */

__attribute__((target("avx512f,avx512bw"))) static size_t quiver_successors_avx512(
  quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
  unsigned char text[QUIVER_WIDEST_SUCCESSOR];
  size_t count = 0;
  unsigned char digit = line[last];
  quiver_text next = line + width;
  if (width > QUIVER_WIDEST_SUCCESSOR) return 0;
  memcpy(text, line, width);
  /* Masked loads neither read nor fault past the line. */
  __mmask64 whole = ~(__mmask64) 0 >> (64 - width);
  __m512i step = _mm512_maskz_set1_epi8((__mmask64) 1 << last, 1);
  __m512i expected = _mm512_maskz_loadu_epi8(whole, line);
  for (; (size_t) (end - next) >= width; count++, next += width) {
    if (digit == '9') {
      text[last] = digit;
      if (!quiver_carry(text, first, last)) break;
      digit = '0';
      expected = _mm512_maskz_loadu_epi8(whole, text);
    } else {
      digit++;
      expected = _mm512_add_epi8(expected, step);
    }
    if (_mm512_cmpneq_epi8_mask(expected, _mm512_maskz_loadu_epi8(whole, next))) break;
  }
  return count;
}
#endif

/* ---- choice ---------------------------------------------------------------------- */

/* Return the scanner of this machine's instruction set with a rank, the best first, from
 * 0; without a name after the last one. */
static quiver_scanner quiver_scanner_at(size_t rank) {
  quiver_scanner found[4];
  size_t count = 0;
  memset(found, 0, sizeof found);
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
    found[count++] = (quiver_scanner) {"avx512", quiver_repeats_avx512, quiver_successors_avx512,
      quiver_take_ms_received, quiver_take_ms_sent, quiver_take_id_received, quiver_take_id_sent};
#endif
#ifdef QUIVER_VECTORS
  if (quiver_has_vectors())
    found[count++] =
      (quiver_scanner) {QUIVER_VECTORS, quiver_repeats_vectors, quiver_successors_vectors,
        quiver_take_ms_received, quiver_take_ms_sent, quiver_take_id_received, quiver_take_id_sent};
#endif
  found[count++] = (quiver_scanner) {
    "scalar", quiver_repeats_scalar, quiver_successors_scalar, NULL, NULL, NULL, NULL};
  return rank < count ? found[rank] : found[3];
}

#endif
