/* Memory for small objects that come and go by the million: freed pieces are kept for the next.
 *
 * Each module that includes this has its own lists, for each thread. A list keeps only a little,
 * so that the memory of a burst goes back to the system. */
#ifndef QUIVER_LOOP_SPARES_H
#define QUIVER_LOOP_SPARES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Sizes are rounded up to multiples of this, up to a largest. */
#define SPARES_STEP 16
#define SPARES_CLASSES 64
/* The most that the list of one size keeps, in bytes. */
#define SPARES_KEPT 262144

typedef struct spares_list {
  void *first; /* each begins with a pointer to the next */
  size_t kept;
} spares_list_t;

static _Thread_local spares_list_t spares_lists[SPARES_CLASSES];

/* 0: nothing is kept, so that a sanitizer sees each use of freed memory. */
static inline size_t spares_class(size_t size) {
#ifdef __SANITIZE_ADDRESS__
  (void) size;
  return 0;
#else
  return (size + SPARES_STEP - 1) / SPARES_STEP;
#endif
}

/* Return memory of that size; NULL if there is none. */
static inline void *spares_take(size_t size) {
  const size_t class = spares_class(size);
  if (class == 0 || class > SPARES_CLASSES) return malloc(size);
  spares_list_t *list = &spares_lists[class - 1];
  void *piece = list->first;
  if (!piece) return malloc(class * SPARES_STEP);
  list->first = *(void **) piece;
  list->kept -= class * SPARES_STEP;
  return piece;
}

/* Free memory that was taken with this size. */
static inline void spares_give(void *piece, size_t size) {
  const size_t class = spares_class(size);
  if (class == 0 || class > SPARES_CLASSES || spares_lists[class - 1].kept >= SPARES_KEPT) {
    free(piece);
    return;
  }
  spares_list_t *list = &spares_lists[class - 1];
  *(void **) piece = list->first;
  list->first = piece;
  list->kept += class * SPARES_STEP;
}

#endif
