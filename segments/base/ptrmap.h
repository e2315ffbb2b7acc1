/* ptrmap.h - a map from a device address to the object there. An entry is one word.
 *
 * Open addressing with linear probing. The number of slots is a power of two. At most 4/5 of the
 * slots are taken, and fewer in a small table. An object is aligned to 64 bytes and has its
 * address, the key, at byte PL_PTRMAP_KEY_AT. So the pointer leaves six bits of a slot unused. Four
 * tell how far the slot lies from the key's home; two are bits of the key's hash. A look-up reads
 * an object only if these bits fit. One object in twenty that fits is the wrong one. A removal
 * reads only objects that lie very far from home.
 *
 *   | pointer to the object ............................ | tag 2 | distance 4 |   0 = empty
 *
 * An address is hashed as a multiple of 512, the allocators' quantum, by Fibonacci hashing. A
 * removal shifts later entries back. So there are no tombstones, and a look-up does not become
 * slower with time. All memory is asked for in pl_ptrmap_reserve, the fallible step; insertion into
 * reserved room cannot fail.
 *
 * A growing map has two tables for a while. Insertions go into the larger table. Each reservation
 * moves a few entries out of the smaller table. A failed look-up in one table tries the second
 * table. So no call moves a million entries under the lock.
 *
 * The owner's lock guards the map. Source: Knuth, TAOCP 3, 6.4, algorithms L and R. */
#ifndef PLEAT_SEGMENTS_PTRMAP_H
#define PLEAT_SEGMENTS_PTRMAP_H

#include <stdbool.h>
#include <string.h>

#include "vmm/base/assert.h"
#include "vmm/base/meta.h"
#include "vmm/base/pleat_types.h"

enum { PL_PTRMAP_ALIGN = 64, PL_PTRMAP_KEY_AT = 64, PL_PTRMAP_FAR = 15, PL_PTRMAP_TAGS = 4 };
enum { PL_PTRMAP_TAG_AT = 24 }; /* hash bits that do not select the home in tables of usual size */

typedef uintptr_t pl_ptrmap_slot; /* 0 = empty */

typedef struct pl_ptrmap_table {
    pl_ptrmap_slot *slots; /* NULL, or a power of two >= 256 */
    size_t mask;           /* number of slots - 1; 0 = no slots */
    unsigned shift;        /* 64 - log2 of the number of slots */
} pl_ptrmap_table;

/* I1  count <= most, at most 4/5 of the slots of `now`
 * I2  count == the number of slots of both tables that are not empty
 * I3  every slot from a key's home to the key's slot is taken; the bits of the key's slot are the
 *     distance from home, at most PL_PTRMAP_FAR, and the key's tag
 * I4  no key twice
 * I5  the slots of `old` from n_unmoved on are empty; there is an old table if and only if
 *     n_unmoved is not 0, and then `quick` is 0, else it is `most` */
typedef struct pl_ptrmap {
    pl_ptrmap_table now;
    size_t count;
    size_t most;  /* how many keys `now` may hold */
    size_t quick; /* a reservation up to this count does nothing */
    pl_ptrmap_table old;
    size_t n_unmoved;
} pl_ptrmap;

/* Zeroed memory is an empty map too. */
static inline void pl_ptrmap_init(pl_ptrmap *map)
{
    memset(map, 0, sizeof *map);
}

void pl_ptrmap_fini(pl_ptrmap *map, pl_meta *meta);

pleat_status pl_ptrmap_make_room(pl_ptrmap *map, pl_meta *meta, size_t n_more);
/* Empty up to n more slots of the old table, if there is one. A growing map empties all the rest at
 * once. Callers that reserve more often than they insert call this function in between. */
void pl_ptrmap_move(pl_ptrmap *map, pl_meta *meta, size_t n);

/* Make room for `n_more` keys beyond those in the map. Room is not reserved for a caller. A caller
 * that drops the lock before its insertion must also count other threads' insertions. Returns
 * PLEAT_OK; ENOMEM_HOST, and the map is as before. */
static inline pleat_status pl_ptrmap_reserve(pl_ptrmap *map, pl_meta *meta, size_t n_more)
{
    size_t n = map->count + n_more;
    if (n >= n_more && n <= map->quick) {
        return PLEAT_OK;
    }
    return pl_ptrmap_make_room(map, meta, n_more);
}

static inline pl_ptrmap_slot pl_ptrmap_at(const pl_ptrmap_table *table, size_t at)
{
    return table->slots[at];
}

__attribute__((always_inline)) static inline void *pl_ptrmap_value(pl_ptrmap_slot slot)
{
    return (void *)(slot & ~(pl_ptrmap_slot)(PL_PTRMAP_ALIGN - 1));
}

__attribute__((always_inline)) static inline pleat_devptr pl_ptrmap_key(pl_ptrmap_slot slot)
{
    pleat_devptr key;
    memcpy(&key, (const char *)pl_ptrmap_value(slot) + PL_PTRMAP_KEY_AT, sizeof key);
    return key;
}

__attribute__((always_inline)) static inline uint64_t pl_ptrmap_hash(pleat_devptr key)
{
    return (key >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

__attribute__((always_inline)) static inline size_t pl_ptrmap_home(const pl_ptrmap_table *table,
                                                                   uint64_t hash)
{
    return (size_t)(hash >> table->shift);
}

/* The low bits of a slot at the key's home. */
__attribute__((always_inline)) static inline pl_ptrmap_slot pl_ptrmap_bits(uint64_t hash)
{
    return (pl_ptrmap_slot)(hash >> PL_PTRMAP_TAG_AT) % PL_PTRMAP_TAGS * (PL_PTRMAP_FAR + 1);
}

static inline size_t pl_ptrmap_distance(const pl_ptrmap_table *table, size_t at)
{
    size_t distance = pl_ptrmap_at(table, at) & PL_PTRMAP_FAR;
    if (__builtin_expect(distance < PL_PTRMAP_FAR, true)) {
        return distance;
    }
    return (at - pl_ptrmap_home(table, pl_ptrmap_hash(pl_ptrmap_key(pl_ptrmap_at(table, at))))) &
           table->mask;
}

/* The table must have an empty slot. */
static inline void pl_ptrmap_put(pl_ptrmap_table *table, pleat_devptr key, void *value)
{
    uint64_t hash = pl_ptrmap_hash(key);
    size_t at = pl_ptrmap_home(table, hash);
    pl_ptrmap_slot slot = (pl_ptrmap_slot)value | pl_ptrmap_bits(hash);
    pl_ptrmap_slot last = slot + PL_PTRMAP_FAR;
    for (; pl_ptrmap_at(table, at) != 0; at = (at + 1) & table->mask) {
        slot += slot < last;
    }
    table->slots[at] = slot;
}

/* The key's slot, or the empty slot where the search ends. */
static inline size_t pl_ptrmap_seek(const pl_ptrmap_table *table, pleat_devptr key)
{
    uint64_t hash = pl_ptrmap_hash(key);
    size_t at = pl_ptrmap_home(table, hash);
    pl_ptrmap_slot bits = pl_ptrmap_bits(hash);
    pl_ptrmap_slot last = bits + PL_PTRMAP_FAR;
    for (pl_ptrmap_slot slot; (slot = pl_ptrmap_at(table, at)) != 0; at = (at + 1) & table->mask) {
        if (slot % PL_PTRMAP_ALIGN == bits && pl_ptrmap_key(slot) == key) {
            break;
        }
        bits += bits < last;
    }
    return at;
}

/* Empty a taken slot. */
static inline void pl_ptrmap_clear(pl_ptrmap_table *table, size_t hole)
{
    /* An entry moves into the hole unless its home lies between the hole and itself. */
    for (size_t at = (hole + 1) & table->mask; pl_ptrmap_at(table, at) != 0;
         at = (at + 1) & table->mask) {
        size_t distance = pl_ptrmap_distance(table, at);
        size_t step = (at - hole) & table->mask;
        if (distance >= step) {
            distance -= step;
            distance = distance < PL_PTRMAP_FAR ? distance : PL_PTRMAP_FAR;
            table->slots[hole] = (pl_ptrmap_at(table, at) & ~(pl_ptrmap_slot)PL_PTRMAP_FAR) |
                                 distance;
            hole = at;
        }
    }
    table->slots[hole] = 0;
}

/* The key is about to be inserted. */
static inline void pl_ptrmap_expect(const pl_ptrmap *map, pleat_devptr key)
{
    __builtin_prefetch(&map->now.slots[pl_ptrmap_home(&map->now, pl_ptrmap_hash(key))], 1);
}

/* `value` holds the key. The key is not 0 and not in the map. The map has room. */
static inline void pl_ptrmap_insert(pl_ptrmap *map, pleat_devptr key, void *value)
{
    pl_assert(key != 0 && value && (pl_ptrmap_slot)value % PL_PTRMAP_ALIGN == 0 &&
              pl_ptrmap_key((pl_ptrmap_slot)value) == key && map->count < map->most);
    pl_ptrmap_put(&map->now, key, value);
    map->count++;
}

void *pl_ptrmap_find_old(const pl_ptrmap *map, pleat_devptr key);
void *pl_ptrmap_remove_old(pl_ptrmap *map, pleat_devptr key);

/* NULL when the key, any number, is not in the map. */
static inline void *pl_ptrmap_find(const pl_ptrmap *map, pleat_devptr key)
{
    if (map->count == 0) {
        return NULL;
    }
    pl_ptrmap_slot slot = pl_ptrmap_at(&map->now, pl_ptrmap_seek(&map->now, key));
    if (__builtin_expect(slot == 0 && map->n_unmoved > 0, false)) {
        return pl_ptrmap_find_old(map, key);
    }
    return pl_ptrmap_value(slot);
}

/* Returns the removed value, or NULL when the key is not in the map. */
static inline void *pl_ptrmap_remove(pl_ptrmap *map, pleat_devptr key)
{
    if (map->count == 0) {
        return NULL;
    }
    size_t at = pl_ptrmap_seek(&map->now, key);
    pl_ptrmap_slot slot = pl_ptrmap_at(&map->now, at);
    if (__builtin_expect(slot == 0, false)) {
        return map->n_unmoved > 0 ? pl_ptrmap_remove_old(map, key) : NULL;
    }
    pl_ptrmap_clear(&map->now, at);
    map->count--;
    return pl_ptrmap_value(slot);
}

/* pl_ptrmap_find for a caller that may remove the value next. *at becomes the value's slot, or
 * SIZE_MAX if the old table holds the value. */
static inline void *pl_ptrmap_find_at(const pl_ptrmap *map, pleat_devptr key, size_t *at)
{
    if (map->count == 0) {
        return NULL;
    }
    *at = pl_ptrmap_seek(&map->now, key);
    pl_ptrmap_slot slot = pl_ptrmap_at(&map->now, *at);
    if (__builtin_expect(slot == 0 && map->n_unmoved > 0, false)) {
        *at = SIZE_MAX;
        return pl_ptrmap_find_old(map, key);
    }
    return pl_ptrmap_value(slot);
}

/* Remove the value that pl_ptrmap_find_at found. The map must not have changed since. */
static inline void pl_ptrmap_remove_at(pl_ptrmap *map, pleat_devptr key, size_t at)
{
    if (__builtin_expect(at == SIZE_MAX, false)) {
        (void)pl_ptrmap_remove_old(map, key);
        return;
    }
    pl_ptrmap_clear(&map->now, at);
    map->count--;
}

/* Walk over all values in no order. `*cursor` starts at 0. NULL at the end. The map must not change
 * meanwhile. */
void *pl_ptrmap_next(const pl_ptrmap *map, size_t *cursor);

int pl_ptrmap_check(const pl_ptrmap *map); /* 0, or the number of the first broken rule */

#endif
