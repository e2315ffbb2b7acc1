/* ptrmap.c - the map's slow paths: growing, giving back, checking. See ptrmap.h. */
#include "segments/ptrmap.h"

enum { LEAST_LOG2 = 6, MOST_LOG2 = 48 };

static size_t room_of(size_t n_slots)
{
    return n_slots / 2 + n_slots / 8;
}

void pl_ptrmap_fini(pl_ptrmap *map, pl_host *host)
{
    pl_host_free(host, map->slots);
    *map = (pl_ptrmap){ 0 };
}

pleat_status pl_ptrmap_grow(pl_ptrmap *map, pl_host *host, size_t n_more)
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
    pl_ptrmap_slot *slots = pl_host_calloc(host, n_slots, sizeof *slots);
    if (!slots) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_ptrmap bigger = {
        .slots = slots, .mask = n_slots - 1, .most = room_of(n_slots), .shift = 64 - log2
    };
    for (size_t i = 0; map->slots && i <= map->mask; i++) {
        if (map->slots[i].key != 0) {
            pl_ptrmap_insert(&bigger, map->slots[i].key, map->slots[i].value);
        }
    }
    pl_host_free(host, map->slots);
    *map = bigger;
    return PLEAT_OK;
}

/* I3 and the first part of I4 for one key: the way from its home finds it, and finds it here. */
static bool is_found_at(const pl_ptrmap *map, size_t at)
{
    for (size_t i = pl_ptrmap_home(map, map->slots[at].key);; i = (i + 1) & map->mask) {
        if (i == at) {
            return true;
        }
        if (map->slots[i].key == 0 || map->slots[i].key == map->slots[at].key) {
            return false;
        }
    }
}

int pl_ptrmap_check(const pl_ptrmap *map)
{
    if (!map->slots) {
        return map->count == 0 && map->most == 0 ? 0 : 1;
    }
    size_t n_slots = map->mask + 1;
    if (n_slots < 64 || (n_slots & map->mask) != 0 || map->count > map->most ||
        map->most > room_of(n_slots)) {
        return 1;
    }
    size_t n_taken = 0;
    for (size_t i = 0; i < n_slots; i++) {
        if ((map->slots[i].key == 0) != (map->slots[i].value == NULL)) {
            return 4;
        }
        if (map->slots[i].key == 0) {
            continue;
        }
        n_taken++;
        if (!is_found_at(map, i)) {
            return 3;
        }
    }
    return n_taken == map->count ? 0 : 2;
}
