/* Rows of run-length records, and what appends lines to them. */
#ifndef QUIVER_ROWS_H
#define QUIVER_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef const unsigned char *quiver_text;

/* Count the lines after `line`, of `width` bytes with the newline, that equal it. */
typedef size_t (*quiver_repeats_fn)(quiver_text line, size_t width, quiver_text end);

/* Count the lines after `line` that equal it except for the decimal number in it, from
 * `first` to `last`, that is one higher in each, until it takes more digits. */
typedef size_t (*quiver_successors_fn)(
  quiver_text line, size_t width, size_t first, size_t last, quiver_text end);

enum {
  QUIVER_WIDEST_SUCCESSOR = 64
};

/* Rows of run-length records. What a layout has none of is not looked at; `settled_ids`
 * is NULL where lines that begin with S or s are no settlements. */
typedef struct {
  int64_t *ids, *sent, *received, *counts;
  size_t size;
  int64_t *settled_ids, *settled_times, *settled_counts;
  unsigned char *settled_sampled;
  size_t settled_size;
  size_t lines; /* that were taken */
  quiver_successors_fn successors;
} quiver_rows;

/* Append lines of one layout, from `line` on, to rows that have room for them; return
 * the first that is none, or is not whole. A line that continues the last row adds to
 * its count. */
typedef quiver_text (*quiver_take_fn)(quiver_text line, quiver_text end, quiver_rows *rows);

#endif
