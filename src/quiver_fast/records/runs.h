/* Scanners for lines that repeat, in three instruction sets chosen at run time.
 *
 * Two facts make run-length records fast. Lines of one width repeat the line before
 * them as long as the text equals itself one width further on, which is a plain search
 * for the first mismatch. And of lines with ids that count up, ten in a row differ in
 * one digit only: the text that must come is made by adding to the text that came.
 *
 * No scanner reads outside of [line, end), but for the takers (ms_lines.h, id_lines.h).
 */
#ifndef QUIVER_RUNS_H
#define QUIVER_RUNS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef const unsigned char *quiver_text;

/* Count the lines after `line`, of `width` bytes with the newline, that equal it. */
typedef size_t (*quiver_repeats_fn)(quiver_text line, size_t width, quiver_text end);

/* Count the lines after `line` that equal it except for the decimal number in it, from
 * `first` to `last`, that is one higher in each, until it takes more digits. */
typedef size_t (*quiver_successors_fn)(
    quiver_text line, size_t width, size_t first, size_t last, quiver_text end);

enum { QUIVER_WIDEST_SUCCESSOR = 64 };

/* Rows of run-length records. What a layout has none of is not looked at; `settled_ids`
 * is NULL where lines that begin with S or s are no settlements. */
typedef struct {
    int64_t *ids, *sent, *received, *counts;
    size_t size;
    int64_t *settled_ids, *settled_times, *settled_counts;
    unsigned char *settled_sampled;
    size_t settled_size;
    size_t lines;                 /* that were taken */
    quiver_successors_fn successors;
} quiver_rows;

/* Append lines of one layout, from `line` on, to rows that have room for them; return
 * the first that is none, or is not whole. A line that continues the last row adds to
 * its count. */
typedef quiver_text (*quiver_take_fn)(quiver_text line, quiver_text end, quiver_rows *rows);

typedef struct {
    const char *name;
    quiver_repeats_fn repeats;
    quiver_successors_fn successors;
    /* Takers of lines in milliseconds, v3 and with ids; NULL where one line at a time is
     * as good. */
    quiver_take_fn take_ms_received, take_ms_sent, take_id_received, take_id_sent;
} quiver_scanner;

/* ---- any machine ----------------------------------------------------------------- */

static inline size_t quiver_equal_from(
    quiver_text text, size_t width, size_t done, size_t size) {
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
    return quiver_equal_from(line, width, 0, (size_t)(end - line) - width) / width;
}

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
    for (; (size_t)(end - next) >= width; count++, next += width) {
        if (!quiver_carry(expected, first, last)) break;
        if (memcmp(expected, next, width) != 0) break;
    }
    return count;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* ---- AVX2 ------------------------------------------------------------------------ */

__attribute__((target("avx2")))
static size_t quiver_repeats_avx2(quiver_text line, size_t width, quiver_text end) {
    size_t size = (size_t)(end - line) - width, done = 0;
    quiver_text next = line + width;
    for (; size - done >= 64; done += 64) {
        __m256i low = _mm256_cmpeq_epi8(
            _mm256_loadu_si256((const __m256i *)(line + done)),
            _mm256_loadu_si256((const __m256i *)(next + done)));
        __m256i high = _mm256_cmpeq_epi8(
            _mm256_loadu_si256((const __m256i *)(line + done + 32)),
            _mm256_loadu_si256((const __m256i *)(next + done + 32)));
        if (_mm256_movemask_epi8(_mm256_and_si256(low, high)) != -1) break;
    }
    return quiver_equal_from(line, width, done, size) / width;
}

/* A line of 16 to 64 bytes is two vectors that may overlap. */
__attribute__((target("avx2")))
static size_t quiver_successors_avx2_wide(
    quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
    unsigned char one[QUIVER_WIDEST_SUCCESSOR] = {0}, text[QUIVER_WIDEST_SUCCESSOR];
    size_t count = 0, back = width - 32;
    unsigned char digit = line[last];
    quiver_text next = line + width;
    one[last] = 1;
    memcpy(text, line, width);
    __m256i head_step = _mm256_loadu_si256((const __m256i *)one);
    __m256i tail_step = _mm256_loadu_si256((const __m256i *)(one + back));
    __m256i head = _mm256_loadu_si256((const __m256i *)line);
    __m256i tail = _mm256_loadu_si256((const __m256i *)(line + back));
    for (; (size_t)(end - next) >= width; count++, next += width) {
        if (digit == '9') {
            text[last] = digit;
            if (!quiver_carry(text, first, last)) break;
            digit = '0';
            head = _mm256_loadu_si256((const __m256i *)text);
            tail = _mm256_loadu_si256((const __m256i *)(text + back));
        } else {
            digit++;
            head = _mm256_add_epi8(head, head_step);
            tail = _mm256_add_epi8(tail, tail_step);
        }
        __m256i same = _mm256_and_si256(
            _mm256_cmpeq_epi8(head, _mm256_loadu_si256((const __m256i *)next)),
            _mm256_cmpeq_epi8(tail, _mm256_loadu_si256((const __m256i *)(next + back))));
        if (_mm256_movemask_epi8(same) != -1) break;
    }
    return count;
}

__attribute__((target("avx2")))
static size_t quiver_successors_avx2_narrow(
    quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
    unsigned char one[QUIVER_WIDEST_SUCCESSOR] = {0}, text[QUIVER_WIDEST_SUCCESSOR];
    size_t count = 0, back = width - 16;
    unsigned char digit = line[last];
    quiver_text next = line + width;
    one[last] = 1;
    memcpy(text, line, width);
    __m128i head_step = _mm_loadu_si128((const __m128i *)one);
    __m128i tail_step = _mm_loadu_si128((const __m128i *)(one + back));
    __m128i head = _mm_loadu_si128((const __m128i *)line);
    __m128i tail = _mm_loadu_si128((const __m128i *)(line + back));
    for (; (size_t)(end - next) >= width; count++, next += width) {
        if (digit == '9') {
            text[last] = digit;
            if (!quiver_carry(text, first, last)) break;
            digit = '0';
            head = _mm_loadu_si128((const __m128i *)text);
            tail = _mm_loadu_si128((const __m128i *)(text + back));
        } else {
            digit++;
            head = _mm_add_epi8(head, head_step);
            tail = _mm_add_epi8(tail, tail_step);
        }
        __m128i same = _mm_and_si128(
            _mm_cmpeq_epi8(head, _mm_loadu_si128((const __m128i *)next)),
            _mm_cmpeq_epi8(tail, _mm_loadu_si128((const __m128i *)(next + back))));
        if (_mm_movemask_epi8(same) != 0xFFFF) break;
    }
    return count;
}

static size_t quiver_successors_avx2(
    quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
    if (width < 16 || width > QUIVER_WIDEST_SUCCESSOR)
        return quiver_successors_scalar(line, width, first, last, end);
    if (width < 32) return quiver_successors_avx2_narrow(line, width, first, last, end);
    return quiver_successors_avx2_wide(line, width, first, last, end);
}

/* ---- AVX-512 --------------------------------------------------------------------- */

__attribute__((target("avx512f,avx512bw")))
static size_t quiver_repeats_avx512(quiver_text line, size_t width, quiver_text end) {
    size_t size = (size_t)(end - line) - width, done = 0;
    quiver_text next = line + width;
    for (; size - done >= 64; done += 64) {
        __mmask64 differ = _mm512_cmpneq_epi8_mask(
            _mm512_loadu_si512(line + done), _mm512_loadu_si512(next + done));
        if (differ) return (done + (size_t)__builtin_ctzll(differ)) / width;
    }
    return quiver_equal_from(line, width, done, size) / width;
}

__attribute__((target("avx512f,avx512bw")))
static size_t quiver_successors_avx512(
    quiver_text line, size_t width, size_t first, size_t last, quiver_text end) {
    unsigned char text[QUIVER_WIDEST_SUCCESSOR];
    size_t count = 0;
    unsigned char digit = line[last];
    quiver_text next = line + width;
    if (width > QUIVER_WIDEST_SUCCESSOR) return 0;
    memcpy(text, line, width);
    /* Masked loads do not touch, nor fault on, what is past the line. */
    __mmask64 whole = ~(__mmask64)0 >> (64 - width);
    __m512i step = _mm512_maskz_set1_epi8((__mmask64)1 << last, 1);
    __m512i expected = _mm512_maskz_loadu_epi8(whole, line);
    for (; (size_t)(end - next) >= width; count++, next += width) {
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

#include "ms_lines.h"
#include "id_lines.h"

/* ---- choice ---------------------------------------------------------------------- */

/* Return the scanner of the `rank`th best instruction set that this machine has,
 * from 0, or one without a name when there is none left. */
static quiver_scanner quiver_scanner_at(size_t rank) {
    quiver_scanner found[4];
    size_t count = 0;
    memset(found, 0, sizeof found);
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        found[count++] = (quiver_scanner){
            "avx512", quiver_repeats_avx512, quiver_successors_avx512,
            quiver_take_ms_received, quiver_take_ms_sent,
            quiver_take_id_received, quiver_take_id_sent};
    if (__builtin_cpu_supports("avx2"))
        found[count++] = (quiver_scanner){
            "avx2", quiver_repeats_avx2, quiver_successors_avx2,
            quiver_take_ms_received, quiver_take_ms_sent,
            quiver_take_id_received, quiver_take_id_sent};
#endif
    found[count++] = (quiver_scanner){
        "scalar", quiver_repeats_scalar, quiver_successors_scalar,
        NULL, NULL, NULL, NULL};
    return rank < count ? found[rank] : found[3];
}

#endif
