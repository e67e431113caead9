/* Memory for small objects that come and go by the million: freed pieces are kept for the next.
 *
 * Each module that includes this has its own lists, for its one thread. */
#ifndef QUIVER_LOOP_SPARES_H
#define QUIVER_LOOP_SPARES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Sizes are rounded up to multiples of this, up to a largest. */
#define SPARES_STEP 16
#define SPARES_CLASSES 64
/* The most that all lists keep, in bytes: messages of many connections come, and go, by the hundred
 * thousand. The allocator would join each with its free neighbours, in cold memory. */
#define SPARES_KEPT 67108864

/* By size. Each piece begins with a pointer to the next. */
static void *spares_lists[SPARES_CLASSES];
static size_t spares_kept;

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
  void **list = &spares_lists[class - 1];
  void *piece = *list;
  if (!piece) return malloc(class * SPARES_STEP);
  *list = *(void **) piece;
  __builtin_prefetch(*list);
  spares_kept -= class * SPARES_STEP;
  return piece;
}

/* Free memory that was taken with this size. */
static inline void spares_give(void *piece, size_t size) {
  const size_t class = spares_class(size);
  if (class == 0 || class > SPARES_CLASSES || spares_kept >= SPARES_KEPT) {
    free(piece);
    return;
  }
  *(void **) piece = spares_lists[class - 1];
  spares_lists[class - 1] = piece;
  spares_kept += class * SPARES_STEP;
}

/* Free what the lists keep. */
static inline void spares_free(void) {
  for (void **list = spares_lists; list < spares_lists + SPARES_CLASSES; list++) {
    while (*list) {
      void *piece = *list;
      *list = *(void **) piece;
      free(piece);
    }
  }
  spares_kept = 0;
}

#endif
