/* ptrmap.h - from a device address to the object that lives there.
 *
 * Open addressing with linear probing in a power of two of slots, at most 5/8 of them taken. An
 * address is hashed as a multiple of 512, the allocators' quantum, by Fibonacci hashing; a removal
 * shifts later entries back, so there are no tombstones and the cost of a look-up does not grow
 * with time. All memory is asked for in pl_ptrmap_reserve, the fallible step; insertion into
 * reserved room cannot fail.
 *
 * A growing map has two tables for a while. Insertions go into the larger one, each reservation
 * moves a few slots' entries out of the smaller one, and a look-up that finds nothing in one table
 * tries the other. So no call moves a million entries while it holds the lock.
 *
 * The owner's lock guards the map. One call needs no lock, pl_ptrmap_peek: it may miss a key that is
 * there, and may find another key's value, so it asks of the caller to look at what the value
 * points to. A table that peeks may be reading goes only when the owner has held them off
 * (is_peeked). Source: Knuth, TAOCP 3, 6.4, algorithms L and R. */
#ifndef PLEAT_SEGMENTS_PTRMAP_H
#define PLEAT_SEGMENTS_PTRMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "vmm/base/assert.h"
#include "vmm/base/host.h"
#include "vmm/base/pleat_types.h"

/* Both are written under the lock. */
typedef struct pl_ptrmap_slot {
    _Atomic pleat_devptr key; /* atomic: 0 = empty */
    _Atomic(void *) value;    /* atomic: NULL in empty slots */
} pl_ptrmap_slot;

typedef struct pl_ptrmap_table {
    pl_ptrmap_slot *slots; /* NULL = none; a power of two >= 64 of them */
    size_t mask;           /* number of slots less one; 0 while there are none */
    unsigned shift;        /* 64 - log2 of the number of slots */
    struct pl_ptrmap_table *next; /* of spent ones */
} pl_ptrmap_table;

/* I1  count <= most, which is 5/8 of the slots of `now`
 * I2  count == the number of slots of both tables whose key is not 0
 * I3  every slot from a key's home to where it lies is taken
 * I4  no key twice, no empty slot with a value, no key with a NULL value
 * I5  the slots of `old` from n_unmoved on are empty; there is an old table if and only if
 *     n_unmoved is not 0, and then `quick` is 0, else it is `most` */
typedef struct pl_ptrmap {
    pl_ptrmap_table now;
    size_t count;
    size_t most;  /* keys that `now` has room for */
    size_t quick; /* up to this count a reservation has nothing to do */
    pl_ptrmap_table old;
    size_t n_unmoved;
    bool is_peeked;                  /* const: tables go by pl_ptrmap_discard only */
    _Atomic(pl_ptrmap_table *) view; /* atomic: a copy of `now`, for peeks; NULL = none */
    pl_ptrmap_table *spent;          /* views of earlier tables, with their slots; latest first */
} pl_ptrmap;

/* Marks a slot's number as one of the old table. */
#define PL_PTRMAP_OLD ((size_t)1 << 63)

/* Zeroed memory is an empty map too. */
static inline void pl_ptrmap_init(pl_ptrmap *map)
{
    memset(map, 0, sizeof *map);
}

void pl_ptrmap_fini(pl_ptrmap *map, pl_host *host);

pleat_status pl_ptrmap_make_room(pl_ptrmap *map, pl_host *host, size_t n_more);
void *pl_ptrmap_find_old(const pl_ptrmap *map, pleat_devptr key, size_t *at);
void pl_ptrmap_remove_old(pl_ptrmap *map, size_t at);

/* Make room for `n_more` keys beyond those in the map. The room is not kept for anyone: a caller
 * that drops the lock before its insertion must also count the insertions of others. Returns
 * PLEAT_OK; ENOMEM_HOST, and the map is as before. */
static inline pleat_status pl_ptrmap_reserve(pl_ptrmap *map, pl_host *host, size_t n_more)
{
    size_t n = map->count + n_more;
    if (n >= n_more && n <= map->quick) {
        return PLEAT_OK;
    }
    return pl_ptrmap_make_room(map, host, n_more);
}

static inline size_t pl_ptrmap_home(const pl_ptrmap_table *table, pleat_devptr key)
{
    return (size_t)(((key >> 9) * UINT64_C(0x9E3779B97F4A7C15)) >> table->shift);
}

static inline pleat_devptr pl_ptrmap_key(const pl_ptrmap_table *table, size_t at)
{
    return atomic_load_explicit(&table->slots[at].key, memory_order_relaxed);
}

static inline void *pl_ptrmap_value(const pl_ptrmap_table *table, size_t at)
{
    return atomic_load_explicit(&table->slots[at].value, memory_order_relaxed);
}

/* Who finds the key without the lock finds the value too, and what it points to. */
static inline void pl_ptrmap_write(pl_ptrmap_table *table, size_t at, pleat_devptr key, void *value)
{
    atomic_store_explicit(&table->slots[at].value, value, memory_order_release);
    atomic_store_explicit(&table->slots[at].key, key, memory_order_release);
}

/* The table must have an empty slot. */
static inline void pl_ptrmap_put(pl_ptrmap_table *table, pleat_devptr key, void *value)
{
    size_t at = pl_ptrmap_home(table, key);
    while (pl_ptrmap_key(table, at) != 0) {
        at = (at + 1) & table->mask;
    }
    pl_ptrmap_write(table, at, key, value);
}

/* The slot with the key, or the empty one where the search for it ends. */
static inline size_t pl_ptrmap_seek(const pl_ptrmap_table *table, pleat_devptr key)
{
    size_t at = pl_ptrmap_home(table, key);
    for (pleat_devptr k; (k = pl_ptrmap_key(table, at)) != key && k != 0;) {
        at = (at + 1) & table->mask;
    }
    return at;
}

/* Empty a taken slot. */
static inline void pl_ptrmap_clear(pl_ptrmap_table *table, size_t hole)
{
    /* An entry moves into the hole unless its home lies between the hole and itself. */
    pleat_devptr key;
    for (size_t at = (hole + 1) & table->mask; (key = pl_ptrmap_key(table, at)) != 0;
         at = (at + 1) & table->mask) {
        size_t home = pl_ptrmap_home(table, key);
        if (((at - home) & table->mask) >= ((at - hole) & table->mask)) {
            pl_ptrmap_write(table, hole, key, pl_ptrmap_value(table, at));
            hole = at;
        }
    }
    pl_ptrmap_write(table, hole, 0, NULL);
}

/* The key must not be 0 or in the map, the value must not be NULL, and there must be room. */
static inline void pl_ptrmap_insert(pl_ptrmap *map, pleat_devptr key, void *value)
{
    pl_assert(key != 0 && value && map->count < map->most);
    pl_ptrmap_put(&map->now, key, value);
    map->count++;
}

/* Like pl_ptrmap_find; also returns the slot of the value. */
static inline void *pl_ptrmap_find_at(const pl_ptrmap *map, pleat_devptr key, size_t *at)
{
    if (map->count == 0) {
        return NULL;
    }
    size_t slot = pl_ptrmap_home(&map->now, key);
    for (pleat_devptr k; (k = pl_ptrmap_key(&map->now, slot)) != key;
         slot = (slot + 1) & map->now.mask) {
        if (k == 0) {
            return map->n_unmoved > 0 ? pl_ptrmap_find_old(map, key, at) : NULL;
        }
    }
    *at = slot;
    return pl_ptrmap_value(&map->now, slot);
}

/* NULL when the key, any number, is not in the map. */
static inline void *pl_ptrmap_find(const pl_ptrmap *map, pleat_devptr key)
{
    size_t at;
    return pl_ptrmap_find_at(map, key, &at);
}

/* Empty the slot of a value that was found; the map must not have changed since. */
static inline void pl_ptrmap_remove_at(pl_ptrmap *map, size_t at)
{
    if (__builtin_expect((at & PL_PTRMAP_OLD) != 0, false)) {
        pl_ptrmap_remove_old(map, at);
        return;
    }
    pl_assert(pl_ptrmap_value(&map->now, at));
    pl_ptrmap_clear(&map->now, at);
    map->count--;
}

/* Returns the removed value, or NULL when the key is not in the map. */
static inline void *pl_ptrmap_remove(pl_ptrmap *map, pleat_devptr key)
{
    size_t at;
    void *value = pl_ptrmap_find_at(map, key, &at);
    if (value) {
        pl_ptrmap_remove_at(map, at);
    }
    return value;
}

/* Without the lock: perhaps the value of `key`, perhaps NULL, perhaps another's. */
static inline void *pl_ptrmap_peek(const pl_ptrmap *map, pleat_devptr key)
{
    enum { LOOKS = 16 };
    const pl_ptrmap_table *table = atomic_load_explicit(&map->view, memory_order_acquire);
    if (!table) {
        return NULL;
    }
    size_t at = pl_ptrmap_home(table, key);
    for (unsigned i = 0; i < LOOKS; i++, at = (at + 1) & table->mask) {
        pleat_devptr k = atomic_load_explicit(&table->slots[at].key, memory_order_acquire);
        if (k == key) {
            return atomic_load_explicit(&table->slots[at].value, memory_order_acquire);
        }
        if (k == 0) {
            return NULL;
        }
    }
    return NULL;
}
/* Are there tables that pl_ptrmap_discard would give back? */
static inline bool pl_ptrmap_has_spent(const pl_ptrmap *map)
{
    return map->spent != NULL && map->n_unmoved == 0;
}
/* Nobody peeks, or the caller has held them off: give back the tables that are spent. */
void pl_ptrmap_discard(pl_ptrmap *map, pl_host *host);

/* Walk over all values in no order: `*cursor` starts at 0; NULL at the end. The map must not change
 * meanwhile. */
void *pl_ptrmap_next(const pl_ptrmap *map, size_t *cursor);

int pl_ptrmap_check(const pl_ptrmap *map); /* 0, or the number of the first broken rule */

#endif
