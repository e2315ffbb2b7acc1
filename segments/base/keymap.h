/* keymap.h - from a number, such as a device address, to a pointer.
 *
 * Open addressing with linear probing. The number of slots is a power of two, and at most 5/8 of
 * them are taken. An address is hashed as a multiple of 512, the allocators' quantum, by Fibonacci
 * hashing. A removal shifts later entries back. So there are no tombstones, and a look-up does not
 * become slower with time. All memory is asked for in pl_keymap_reserve, the fallible step;
 * insertion into reserved room cannot fail.
 *
 * A growing map has two tables for a while. Insertions go into the larger table. Each reservation
 * moves a few entries out of the smaller table. A failed look-up in one table tries the second
 * table. So no call moves a million entries under the lock.
 *
 * The owner's lock guards the map. Source: Knuth, TAOCP 3, 6.4, algorithms L and R. */
#ifndef PLEAT_SEGMENTS_KEYMAP_H
#define PLEAT_SEGMENTS_KEYMAP_H

#include <stdbool.h>

#include "vmm/base/assert.h"
#include "vmm/base/meta.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_keymap_slot {
    pleat_devptr key; /* 0 = empty */
    void *value;      /* NULL in empty slots */
} pl_keymap_slot;

typedef struct pl_keymap_table {
    pl_keymap_slot *slots; /* NULL = none; their number is a power of two >= 64 */
    size_t mask;           /* number of slots - 1; 0 = no slots */
    unsigned shift;        /* 64 - log2 of the number of slots */
} pl_keymap_table;

/* I1  count <= most, which is 5/8 of the slots of `now`
 * I2  count == the number of slots of both tables whose key is not 0
 * I3  every slot from a key's home to the key's slot is taken
 * I4  no key twice, no empty slot with a value, no key with a NULL value
 * I5  the slots of `old` from n_unmoved on are empty; there is an old table if and only if
 *     n_unmoved is not 0, and then `quick` is 0, else it is `most` */
typedef struct pl_keymap {
    pl_keymap_table now;
    size_t count;
    size_t most;  /* how many keys `now` may hold */
    size_t quick; /* a reservation up to this count does nothing */
    pl_keymap_table old;
    size_t n_unmoved;
} pl_keymap;

/* Marks a slot's number as one of the old table. */
#define PL_KEYMAP_OLD ((size_t)1 << 63)

/* Zeroed memory is an empty map too. */
static inline void pl_keymap_init(pl_keymap *map)
{
    *map = (pl_keymap){ 0 };
}

void pl_keymap_fini(pl_keymap *map, pl_meta *meta);

pleat_status pl_keymap_make_room(pl_keymap *map, pl_meta *meta, size_t n_more);
void *pl_keymap_find_old(const pl_keymap *map, pleat_devptr key, size_t *at);
void pl_keymap_remove_old(pl_keymap *map, size_t at);

/* Make room for `n_more` keys beyond those in the map. Room is not reserved for a caller. A caller
 * that drops the lock before its insertion must also count other threads' insertions. Returns
 * PLEAT_OK; ENOMEM_HOST, and the map is as before. */
static inline pleat_status pl_keymap_reserve(pl_keymap *map, pl_meta *meta, size_t n_more)
{
    size_t n = map->count + n_more;
    if (n >= n_more && n <= map->quick) {
        return PLEAT_OK;
    }
    return pl_keymap_make_room(map, meta, n_more);
}

static inline size_t pl_keymap_home(const pl_keymap_table *table, pleat_devptr key)
{
    return (size_t)(((key >> 9) * UINT64_C(0x9E3779B97F4A7C15)) >> table->shift);
}

/* The table must have an empty slot. */
static inline void pl_keymap_put(pl_keymap_table *table, pl_keymap_slot entry)
{
    size_t at = pl_keymap_home(table, entry.key);
    while (table->slots[at].key != 0) {
        at = (at + 1) & table->mask;
    }
    table->slots[at] = entry;
}

/* The key's slot, or the empty slot where the search ends. */
static inline size_t pl_keymap_seek(const pl_keymap_table *table, pleat_devptr key)
{
    size_t at = pl_keymap_home(table, key);
    while (table->slots[at].key != key && table->slots[at].key != 0) {
        at = (at + 1) & table->mask;
    }
    return at;
}

/* Empty a taken slot. */
static inline void pl_keymap_clear(pl_keymap_table *table, size_t hole)
{
    pl_keymap_slot *slots = table->slots;
    /* An entry moves into the hole unless its home lies between the hole and itself. */
    for (size_t at = (hole + 1) & table->mask; slots[at].key != 0; at = (at + 1) & table->mask) {
        size_t home = pl_keymap_home(table, slots[at].key);
        if (((at - home) & table->mask) >= ((at - hole) & table->mask)) {
            slots[hole] = slots[at];
            hole = at;
        }
    }
    slots[hole] = (pl_keymap_slot){ 0 };
}

/* The key must not be 0 or in the map, the value must not be NULL, and there must be room. */
static inline void pl_keymap_insert(pl_keymap *map, pleat_devptr key, void *value)
{
    pl_assert(key != 0 && value && map->count < map->most);
    pl_keymap_put(&map->now, (pl_keymap_slot){ .key = key, .value = value });
    map->count++;
}

/* Like pl_keymap_find; also returns the slot of the value. */
static inline void *pl_keymap_find_at(const pl_keymap *map, pleat_devptr key, size_t *at)
{
    if (map->count == 0) {
        return NULL;
    }
    const pl_keymap_slot *slots = map->now.slots;
    size_t slot = pl_keymap_home(&map->now, key);
    for (; slots[slot].key != key; slot = (slot + 1) & map->now.mask) {
        if (slots[slot].key == 0) {
            return map->n_unmoved > 0 ? pl_keymap_find_old(map, key, at) : NULL;
        }
    }
    *at = slot;
    return slots[slot].value;
}

/* NULL when the key, any number, is not in the map. */
static inline void *pl_keymap_find(const pl_keymap *map, pleat_devptr key)
{
    size_t at;
    return pl_keymap_find_at(map, key, &at);
}

/* Empty the slot of a found value. The map must not have changed since. */
static inline void pl_keymap_remove_at(pl_keymap *map, size_t at)
{
    if (__builtin_expect((at & PL_KEYMAP_OLD) != 0, false)) {
        pl_keymap_remove_old(map, at);
        return;
    }
    pl_assert(map->now.slots[at].value);
    pl_keymap_clear(&map->now, at);
    map->count--;
}

/* Returns the removed value, or NULL when the key is not in the map. */
static inline void *pl_keymap_remove(pl_keymap *map, pleat_devptr key)
{
    size_t at;
    void *value = pl_keymap_find_at(map, key, &at);
    if (value) {
        pl_keymap_remove_at(map, at);
    }
    return value;
}

/* Walk over all values in no order. `*cursor` starts at 0. NULL at the end. The map must not change
 * meanwhile. */
void *pl_keymap_next(const pl_keymap *map, size_t *cursor);

int pl_keymap_check(const pl_keymap *map); /* 0, or the number of the first broken rule */

#endif
