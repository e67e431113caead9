/* Count the lines that equal the one before them: with vectors, and one by one. */
#ifndef QUIVER_REPEATS_H
#define QUIVER_REPEATS_H

#include "rows.h"
#include "vectors.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t quiver_equal_from(quiver_text text, size_t width, size_t done, size_t size) {
  while (size - done >= 8) {
    uint64_t here, there;
    memcpy(&here, text + done, 8);
    memcpy(&there, text + width + done, 8);
    if (here != there) break;
    done += 8;
  }
  while (done < size && text[done] == text[width + done]) done++;
  return done;
}

static size_t quiver_repeats_scalar(quiver_text line, size_t width, quiver_text end) {
  return quiver_equal_from(line, width, 0, (size_t) (end - line) - width) / width;
}

#ifdef QUIVER_VECTORS
QUIVER_TARGET static size_t quiver_repeats_vectors(
  quiver_text line, size_t width, quiver_text end) {
  size_t size = (size_t) (end - line) - width, done = 0;
  quiver_text next = line + width;
  for (; size - done >= 64; done += 64)
    if (!quiver_are_same(quiver_load32(line + done), quiver_load32(next + done),
          quiver_load32(line + done + 32), quiver_load32(next + done + 32)))
      break;
  return quiver_equal_from(line, width, done, size) / width;
}
#endif

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512bw"))) static size_t quiver_repeats_avx512(
  quiver_text line, size_t width, quiver_text end) {
  size_t size = (size_t) (end - line) - width, done = 0;
  quiver_text next = line + width;
  for (; size - done >= 64; done += 64) {
    __mmask64 differ =
      _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(line + done), _mm512_loadu_si512(next + done));
    if (differ) return (done + (size_t) __builtin_ctzll(differ)) / width;
  }
  return quiver_equal_from(line, width, done, size) / width;
}
#endif

#endif
