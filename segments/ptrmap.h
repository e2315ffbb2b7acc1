/* ptrmap.h - from a device address to the object that lives there.
 *
 * Open addressing with linear probing in a power of two of slots, at most 5/8 of them taken. An
 * address is hashed as a multiple of 512, the allocators' quantum, by Fibonacci hashing; a removal
 * shifts later entries back, so there are no tombstones and a look-up costs the same for ever.
 * All memory is asked for in pl_ptrmap_reserve, the fallible step; insertion into reserved room
 * cannot fail. The owner's lock guards the map. Source: Knuth, TAOCP 3, 6.4, algorithms L and R. */
#ifndef PLEAT_SEGMENTS_PTRMAP_H
#define PLEAT_SEGMENTS_PTRMAP_H

#include "vmm/base/assert.h"
#include "vmm/base/host.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_ptrmap_slot {
    pleat_devptr key; /* 0 = empty */
    void *value;      /* NULL in empty slots */
} pl_ptrmap_slot;

/* I1  n_slots is 0 or a power of two >= 64, and count <= most <= n_slots * 5 / 8
 * I2  count == the number of slots whose key is not 0
 * I3  every slot from a key's home to where it lies is taken
 * I4  no key twice, no empty slot with a value, no key with a NULL value */
typedef struct pl_ptrmap {
    pl_ptrmap_slot *slots; /* NULL while n_slots is 0 */
    size_t mask;           /* n_slots - 1; 0 while there are none */
    size_t count;
    size_t most;    /* keys the slots have room for */
    unsigned shift; /* 64 - log2(n_slots) */
} pl_ptrmap;

/* Zeroed memory is an empty map too. */
static inline void pl_ptrmap_init(pl_ptrmap *map)
{
    *map = (pl_ptrmap){ 0 };
}

void pl_ptrmap_fini(pl_ptrmap *map, pl_host *host);

pleat_status pl_ptrmap_grow(pl_ptrmap *map, pl_host *host, size_t n_more);

/* Make room for `n_more` keys beyond those that are in. The room is not kept for anyone: whoever
 * drops the lock between this and the insertion counts the insertions of others in.
 * Returns PLEAT_OK; ENOMEM_HOST, and the map is as before. */
static inline pleat_status pl_ptrmap_reserve(pl_ptrmap *map, pl_host *host, size_t n_more)
{
    if (n_more <= map->most - map->count) {
        return PLEAT_OK;
    }
    return pl_ptrmap_grow(map, host, n_more);
}

static inline size_t pl_ptrmap_home(const pl_ptrmap *map, pleat_devptr key)
{
    return (size_t)(((key >> 9) * UINT64_C(0x9E3779B97F4A7C15)) >> map->shift);
}

/* The key must be neither 0 nor in the map, the value not NULL, and there must be room. */
static inline void pl_ptrmap_insert(pl_ptrmap *map, pleat_devptr key, void *value)
{
    pl_assert(key != 0 && value && map->count < map->most);
    size_t at = pl_ptrmap_home(map, key);
    while (map->slots[at].key != 0) {
        at = (at + 1) & map->mask;
    }
    map->slots[at] = (pl_ptrmap_slot){ .key = key, .value = value };
    map->count++;
}

/* The same as pl_ptrmap_find, and the slot where the value is. */
static inline void *pl_ptrmap_find_at(const pl_ptrmap *map, pleat_devptr key, size_t *at)
{
    if (map->count == 0) {
        return NULL;
    }
    size_t slot = pl_ptrmap_home(map, key);
    while (map->slots[slot].key != key && map->slots[slot].key != 0) {
        slot = (slot + 1) & map->mask;
    }
    *at = slot;
    return map->slots[slot].value;
}

/* NULL when the key, any number, is not in the map. */
static inline void *pl_ptrmap_find(const pl_ptrmap *map, pleat_devptr key)
{
    size_t at;
    return pl_ptrmap_find_at(map, key, &at);
}

/* Empty the slot of a value that was found, since when the map has not changed. */
static inline void pl_ptrmap_remove_at(pl_ptrmap *map, size_t hole)
{
    pl_assert(map->slots[hole].value);
    /* An entry moves into the hole if its home does not lie between the hole and itself. */
    for (size_t at = (hole + 1) & map->mask; map->slots[at].key != 0; at = (at + 1) & map->mask) {
        size_t home = pl_ptrmap_home(map, map->slots[at].key);
        if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (pl_ptrmap_slot){ 0 };
    map->count--;
}

/* Returns the value that was there, or NULL when the key was not. */
static inline void *pl_ptrmap_remove(pl_ptrmap *map, pleat_devptr key)
{
    size_t at;
    void *value = pl_ptrmap_find_at(map, key, &at);
    if (value) {
        pl_ptrmap_remove_at(map, at);
    }
    return value;
}

/* Walk over all values in no order: `*cursor` starts at 0; NULL at the end. The map must not change
 * meanwhile. */
static inline void *pl_ptrmap_next(const pl_ptrmap *map, size_t *cursor)
{
    size_t n_slots = map->slots ? map->mask + 1 : 0;
    while (*cursor < n_slots) {
        void *value = map->slots[(*cursor)++].value;
        if (value) {
            return value;
        }
    }
    return NULL;
}

int pl_ptrmap_check(const pl_ptrmap *map); /* 0, or the number of the first broken rule */

#endif
