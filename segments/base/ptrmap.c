/* ptrmap.c - the map's slow paths: growing, giving back, walking, checking. See ptrmap.h.
 *
 * The old table is emptied from its highest slot down. All slots behind an emptied slot are empty,
 * so an entry leaves without shifting others. Only chains of the highest slots may continue in the
 * lowest ones. */
#include "segments/base/ptrmap.h"

#include "vmm/base/lock.h"

enum { LEAST_LOG2 = 8, MOST_LOG2 = 48, MOVES = 16 };
enum { SPARSE_SLOTS = 1 << 11, HALF_SLOTS = 1 << 15 };

/* The fuller a table, the further lie its entries from home, and a processor does not foresee how
 * far. Small tables are filled less, since their memory hardly counts. */
static size_t room_of(size_t n_slots)
{
    if (n_slots <= HALF_SLOTS) {
        return n_slots <= SPARSE_SLOTS ? n_slots / 4 : n_slots / 2;
    }
    return n_slots / 5 * 4;
}

static size_t slots_of(const pl_ptrmap_table *table)
{
    return table->slots ? table->mask + 1 : 0;
}

void pl_ptrmap_fini(pl_ptrmap *map, pl_meta *meta)
{
    pl_meta_free(meta, map->old.slots);
    pl_meta_free(meta, map->now.slots);
    pl_ptrmap_init(map);
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Move the contents of the next `n` old slots. */
static void move_some(pl_ptrmap *map, pl_meta *meta, size_t n)
{
    for (; n > 0 && map->n_unmoved > 0; n--) {
        pl_lock_touch(1);
        pl_ptrmap_slot slot = pl_ptrmap_at(&map->old, map->n_unmoved - 1);
        if (slot == 0) {
            map->n_unmoved--;
            continue;
        }
        pl_ptrmap_clear(&map->old, map->n_unmoved - 1);
        pl_ptrmap_put(&map->now, pl_ptrmap_key(slot), pl_ptrmap_value(slot));
    }
    if (map->n_unmoved == 0) {
        pl_meta_free(meta, map->old.slots);
        map->old = (pl_ptrmap_table){ 0 };
        map->quick = map->most;
    }
}

static pleat_status grow(pl_ptrmap *map, pl_meta *meta, size_t n_more)
{
    size_t most = (size_t)1 << MOST_LOG2;
    if (n_more > most || map->count + n_more > room_of(most)) {
        return PLEAT_ENOMEM_HOST;
    }
    unsigned log2 = LEAST_LOG2;
    while (room_of((size_t)1 << log2) < map->count + n_more) {
        log2++;
    }
    size_t n_slots = (size_t)1 << log2;
    pl_ptrmap_slot *slots = pl_meta_calloc(meta, n_slots, sizeof *slots);
    if (!slots) {
        return PLEAT_ENOMEM_HOST;
    }
    move_some(map, meta, SIZE_MAX); /* at most one entry per insertion since; mostly none */
    map->old = map->now;
    map->n_unmoved = slots_of(&map->old);
    map->now = (pl_ptrmap_table){ .slots = slots, .mask = n_slots - 1, .shift = 64 - log2 };
    map->most = room_of(n_slots);
    map->quick = 0;
    return PLEAT_OK;
}

pleat_status pl_ptrmap_make_room(pl_ptrmap *map, pl_meta *meta, size_t n_more)
{
    if (n_more > map->most - map->count) {
        pleat_status st = grow(map, meta, n_more);
        if (st != PLEAT_OK) {
            return st;
        }
    }
    move_some(map, meta, MOVES);
    return PLEAT_OK;
}

void pl_ptrmap_move(pl_ptrmap *map, pl_meta *meta, size_t n)
{
    move_some(map, meta, n);
}

void *pl_ptrmap_find_old(const pl_ptrmap *map, pleat_devptr key)
{
    return pl_ptrmap_value(pl_ptrmap_at(&map->old, pl_ptrmap_seek(&map->old, key)));
}

void *pl_ptrmap_remove_old(pl_ptrmap *map, pleat_devptr key)
{
    size_t at = pl_ptrmap_seek(&map->old, key);
    void *value = pl_ptrmap_value(pl_ptrmap_at(&map->old, at));
    if (value) {
        pl_ptrmap_clear(&map->old, at);
        map->count--;
    }
    return value;
}

/* ---- walking --------------------------------------------------------------------------------- */

void *pl_ptrmap_next(const pl_ptrmap *map, size_t *cursor)
{
    size_t n_now = slots_of(&map->now);
    while (*cursor < n_now + map->n_unmoved) {
        size_t at = (*cursor)++;
        pl_ptrmap_slot slot = at < n_now ? pl_ptrmap_at(&map->now, at)
                                         : pl_ptrmap_at(&map->old, at - n_now);
        if (slot != 0) {
            return pl_ptrmap_value(slot);
        }
    }
    return NULL;
}

/* ---- the walker ------------------------------------------------------------------------------ */

/* Check I3 and I4 for one table, and count the keys. */
static int check_table(const pl_ptrmap_table *table, size_t *n_taken)
{
    for (size_t i = 0; i < slots_of(table); i++) {
        pl_ptrmap_slot slot = pl_ptrmap_at(table, i);
        if (slot == 0) {
            continue;
        }
        uint64_t hash = pl_ptrmap_hash(pl_ptrmap_key(slot));
        size_t distance = (i - pl_ptrmap_home(table, hash)) & table->mask;
        distance = distance < PL_PTRMAP_FAR ? distance : PL_PTRMAP_FAR;
        ++*n_taken;
        if (slot % PL_PTRMAP_ALIGN != (pl_ptrmap_bits(hash) | distance)) {
            return 3;
        }
        size_t first = pl_ptrmap_seek(table, pl_ptrmap_key(slot));
        if (first != i) {
            return pl_ptrmap_at(table, first) == 0 ? 3 : 4;
        }
    }
    return 0;
}

/* Checks I4 and I5 between the tables. */
static int check_old(const pl_ptrmap *map)
{
    size_t n_slots = slots_of(&map->old);
    if (map->n_unmoved > n_slots || (n_slots > 0) != (map->n_unmoved > 0) ||
        map->quick != (n_slots > 0 ? 0 : map->most)) {
        return 5;
    }
    for (size_t i = 0; i < n_slots; i++) {
        pl_ptrmap_slot slot = pl_ptrmap_at(&map->old, i);
        if (i >= map->n_unmoved && slot != 0) {
            return 5;
        }
        if (slot != 0 &&
            pl_ptrmap_at(&map->now, pl_ptrmap_seek(&map->now, pl_ptrmap_key(slot))) != 0) {
            return 4;
        }
    }
    return 0;
}

int pl_ptrmap_check(const pl_ptrmap *map)
{
    size_t n_slots = slots_of(&map->now);
    if (map->count > map->most || map->most != room_of(n_slots) ||
        (n_slots > 0 && (n_slots < 64 || (n_slots & map->now.mask) != 0))) {
        return 1;
    }
    size_t n_taken = 0;
    int broken = check_table(&map->now, &n_taken);
    broken = broken != 0 ? broken : check_table(&map->old, &n_taken);
    broken = broken != 0 ? broken : check_old(map);
    return broken != 0 ? broken : n_taken == map->count ? 0 : 2;
}
