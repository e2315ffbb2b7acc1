/* keymap.c - the map's slow paths: growing, giving back, walking, checking. See keymap.h.
 *
 * The old table is emptied from its highest slot down. All slots behind an emptied slot are empty,
 * so an entry leaves without shifting others. Only chains of the highest slots may continue in the
 * lowest ones. */
#include "segments/base/keymap.h"

#include "vmm/base/lock.h"

enum { LEAST_LOG2 = 6, MOST_LOG2 = 48, MOVES = 16 };

static size_t room_of(size_t n_slots)
{
    return n_slots / 2 + n_slots / 8;
}

static size_t slots_of(const pl_keymap_table *table)
{
    return table->slots ? table->mask + 1 : 0;
}

void pl_keymap_fini(pl_keymap *map, pl_meta *meta)
{
    pl_meta_free(meta, map->now.slots);
    pl_meta_free(meta, map->old.slots);
    *map = (pl_keymap){ 0 };
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Move the contents of the next `n` old slots. */
static void move_some(pl_keymap *map, pl_meta *meta, size_t n)
{
    for (; n > 0 && map->n_unmoved > 0; n--) {
        pl_lock_touch(1);
        pl_keymap_slot entry = map->old.slots[map->n_unmoved - 1];
        if (entry.key == 0) {
            map->n_unmoved--;
            continue;
        }
        pl_keymap_clear(&map->old, map->n_unmoved - 1);
        pl_keymap_put(&map->now, entry);
    }
    if (map->n_unmoved == 0) {
        pl_meta_free(meta, map->old.slots);
        map->old = (pl_keymap_table){ 0 };
        map->quick = map->most;
    }
}

static pleat_status grow(pl_keymap *map, pl_meta *meta, size_t n_more)
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
    pl_keymap_slot *slots = pl_meta_calloc(meta, n_slots, sizeof *slots);
    if (!slots) {
        return PLEAT_ENOMEM_HOST;
    }
    move_some(map, meta, SIZE_MAX); /* at most one entry per insertion since; mostly none */
    map->old = map->now;
    map->n_unmoved = slots_of(&map->old);
    map->now = (pl_keymap_table){ .slots = slots, .mask = n_slots - 1, .shift = 64 - log2 };
    map->most = room_of(n_slots);
    map->quick = 0;
    return PLEAT_OK;
}

pleat_status pl_keymap_make_room(pl_keymap *map, pl_meta *meta, size_t n_more)
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

void *pl_keymap_find_old(const pl_keymap *map, pleat_devptr key, size_t *at)
{
    size_t slot = pl_keymap_seek(&map->old, key);
    *at = slot | PL_KEYMAP_OLD;
    return map->old.slots[slot].value;
}

void pl_keymap_remove_old(pl_keymap *map, size_t at)
{
    pl_assert(map->old.slots[at & ~PL_KEYMAP_OLD].value);
    pl_keymap_clear(&map->old, at & ~PL_KEYMAP_OLD);
    map->count--;
}

/* ---- walking --------------------------------------------------------------------------------- */

void *pl_keymap_next(const pl_keymap *map, size_t *cursor)
{
    size_t n_now = slots_of(&map->now);
    while (*cursor < n_now + map->n_unmoved) {
        size_t at = (*cursor)++;
        void *value = at < n_now ? map->now.slots[at].value : map->old.slots[at - n_now].value;
        if (value) {
            return value;
        }
    }
    return NULL;
}

/* ---- the walker ------------------------------------------------------------------------------ */

/* Check I3 and I4 for one table, and count the keys. */
static int check_table(const pl_keymap_table *table, size_t *n_taken)
{
    for (size_t i = 0; i < slots_of(table); i++) {
        const pl_keymap_slot *slot = &table->slots[i];
        if ((slot->key == 0) != (slot->value == NULL)) {
            return 4;
        }
        if (slot->key == 0) {
            continue;
        }
        ++*n_taken;
        if (pl_keymap_seek(table, slot->key) != i) {
            return 3;
        }
    }
    return 0;
}

/* Checks I4 and I5 between the tables. */
static int check_old(const pl_keymap *map)
{
    size_t n_slots = slots_of(&map->old);
    if (map->n_unmoved > n_slots || (n_slots > 0) != (map->n_unmoved > 0) ||
        map->quick != (n_slots > 0 ? 0 : map->most)) {
        return 5;
    }
    for (size_t i = 0; i < n_slots; i++) {
        pleat_devptr key = map->old.slots[i].key;
        if (i >= map->n_unmoved && key != 0) {
            return 5;
        }
        if (key != 0 && map->now.slots[pl_keymap_seek(&map->now, key)].key == key) {
            return 4;
        }
    }
    return 0;
}

int pl_keymap_check(const pl_keymap *map)
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
