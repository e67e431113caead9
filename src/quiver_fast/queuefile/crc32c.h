/* CRC-32C (Castagnoli), by the instructions of SSE 4.2 and ARMv8; a table elsewhere. */
#ifndef QUIVER_CRC32C_H
#define QUIVER_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <stdbool.h>
#include <sys/auxv.h>

static bool quiver_has_crc;
#endif

static uint32_t quiver_crc_table[256];

static inline void quiver_crc_prepare(void) {
#if defined(__aarch64__)
  /* Optional in ARMv8.0. */
  quiver_has_crc = getauxval(AT_HWCAP) & HWCAP_CRC32;
#endif
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
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t quiver_crc_arm(
  uint32_t crc, const char *at, size_t size) {
  for (; size >= 8; size -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    crc = __crc32cd(crc, word);
  }
  for (; size; size--, at++) crc = __crc32cb(crc, (uint8_t) *at);
  return crc;
}

static inline uint32_t quiver_crc(uint32_t crc, const char *at, size_t size) {
  return quiver_has_crc ? quiver_crc_arm(crc, at, size) : quiver_crc_plain(crc, at, size);
}
#else
#define quiver_crc quiver_crc_plain
#endif

#endif
