/* A table of open addresses: a key lies at its home, or in the row of used places after it. */

#include "index.h"

#include <stdlib.h>

#define LEAST_CAPACITY 8

void amqp_index_init(amqp_index_t *index, uint64_t seed) {
  *index = (amqp_index_t) {.factor = seed | 1};
}

void amqp_index_free(amqp_index_t *index) {
  free(index->entries);
  index->entries = NULL;
  index->capacity = index->count = 0;
}

/* The home of a key. The product's middle bits depend on the key's lower half, and the fold adds
 * its upper half. */
static size_t home_of(const amqp_index_t *index, uint64_t key) {
  const uint64_t product = (key ^ key >> 29) * index->factor;
  return (size_t) (product >> 32) & (index->capacity - 1);
}

static size_t after(const amqp_index_t *index, size_t place) {
  return (place + 1) & (index->capacity - 1);
}

/* Return the place of a key, or the free place for it. */
static size_t place_of(const amqp_index_t *index, uint64_t key) {
  size_t place = home_of(index, key);
  while (index->entries[place].value && index->entries[place].key != key)
    place = after(index, place);
  return place;
}

void *amqp_index_find(const amqp_index_t *index, uint64_t key) {
  return index->count ? index->entries[place_of(index, key)].value : NULL;
}

static bool grow(amqp_index_t *index) {
  amqp_index_t larger = *index;
  larger.capacity = index->capacity ? index->capacity * 2 : LEAST_CAPACITY;
  larger.entries = calloc(larger.capacity, sizeof *larger.entries);
  if (!larger.entries) return false;
  for (size_t i = 0; i < index->capacity; i++) {
    const amqp_index_entry_t *entry = &index->entries[i];
    if (entry->value) larger.entries[place_of(&larger, entry->key)] = *entry;
  }
  free(index->entries);
  *index = larger;
  return true;
}

bool amqp_index_add(amqp_index_t *index, uint64_t key, void *value) {
  /* At most half of the places are used, so that rows are short. */
  if (index->count * 2 >= index->capacity && !grow(index)) return false;
  index->entries[place_of(index, key)] = (amqp_index_entry_t) {key, value};
  index->count++;
  return true;
}

void amqp_index_remove(amqp_index_t *index, uint64_t key) {
  if (!amqp_index_find(index, key)) return;
  size_t hole = place_of(index, key);
  /* Later entries of the row move into the hole, unless their home lies after it. */
  for (size_t i = after(index, hole); index->entries[i].value; i = after(index, i)) {
    const size_t mask = index->capacity - 1;
    const size_t distance = (i - home_of(index, index->entries[i].key)) & mask;
    if (distance < ((i - hole) & mask)) continue;
    index->entries[hole] = index->entries[i];
    hole = i;
  }
  index->entries[hole].value = NULL;
  index->count--;
}
