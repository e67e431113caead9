/* Rows of run-length records, and functions that append lines to them. */
#ifndef QUIVER_ROWS_H
#define QUIVER_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef const unsigned char *quiver_text;

/* Count the lines after `line`, of `width` bytes with the newline, that equal it. */
typedef size_t (*quiver_repeats_fn)(quiver_text line, size_t width, quiver_text end);

/* Count the lines after `line` that equal it except for the decimal number in it, from
 * `first` to `last`, which is one higher in each, until it takes more digits. */
typedef size_t (*quiver_successors_fn)(
  quiver_text line, size_t width, size_t first, size_t last, quiver_text end);

enum {
  QUIVER_WIDEST_SUCCESSOR = 64
};

/* Rows of run-length records. Fields that a layout lacks are not used; `settled_ids` is
 * NULL if lines that begin with S or s are no settlements. */
typedef struct {
  int64_t *ids, *sent, *received, *counts;
  size_t size;
  int64_t *settled_ids, *settled_times, *settled_counts;
  unsigned char *settled_sampled;
  size_t settled_size;
  size_t lines; /* taken so far */
  quiver_successors_fn successors;
} quiver_rows;

/* Append lines of one layout, from `line` on, to rows with room for them; return the
 * first other or incomplete line. A line that continues the last row adds to its count. */
typedef quiver_text (*quiver_take_fn)(quiver_text line, quiver_text end, quiver_rows *rows);

#endif
