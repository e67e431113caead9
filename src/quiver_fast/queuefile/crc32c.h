/* CRC-32C (Castagnoli), as the SSE 4.2 instruction computes it; a table elsewhere. */
#ifndef QUIVER_CRC32C_H
#define QUIVER_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t quiver_crc_table[256];

static inline void quiver_crc_prepare(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
    quiver_crc_table[byte] = crc;
  }
}

static uint32_t quiver_crc_plain(uint32_t crc, const char *at, size_t size) {
  while (size--) crc = quiver_crc_table[(crc ^ (uint8_t) *at++) & 0xFF] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t quiver_crc_sse(
  uint32_t crc, const char *at, size_t size) {
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = (uint32_t) wide;
  for (; size; size--, at++) crc = __builtin_ia32_crc32qi(crc, (uint8_t) *at);
  return crc;
}

static inline uint32_t quiver_crc(uint32_t crc, const char *at, size_t size) {
  return __builtin_cpu_supports("sse4.2") ? quiver_crc_sse(crc, at, size)
                                          : quiver_crc_plain(crc, at, size);
}
#else
#define quiver_crc quiver_crc_plain
#endif

#endif
