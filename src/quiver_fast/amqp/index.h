/* Pointers by numbers that a peer chooses, such as channels and handles. */
#ifndef QUIVER_AMQP_INDEX_H
#define QUIVER_AMQP_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct amqp_index_entry {
  uint64_t key;
  void *value; /* NULL if the place is free */
} amqp_index_entry_t;

typedef struct amqp_index {
  amqp_index_entry_t *entries;
  size_t capacity; /* a power of two */
  size_t count;
  uint64_t factor; /* odd */
} amqp_index_t;

/* Make an empty index. A seed that peers do not know keeps them from choosing keys that collide. */
void amqp_index_init(amqp_index_t *index, uint64_t seed);
void amqp_index_free(amqp_index_t *index);

/* Return the value of a key, or NULL. */
void *amqp_index_find(const amqp_index_t *index, uint64_t key);

/* Add a value, which is not NULL, for a key that has none; false for lack of memory. */
bool amqp_index_add(amqp_index_t *index, uint64_t key, void *value);

/* Remove a key, if it is there. */
void amqp_index_remove(amqp_index_t *index, uint64_t key);

#endif
