/* ids.c - which slot the id of a live block has. */
#include "bench/work/ids.h"

#include <stdlib.h>
#include <sys/random.h>

#include "bench/clock.h"
#include "bench/random.h"

#define FIRST_BITS 12u

bool bench_ids_init(bench_ids *ids)
{
    *ids = (bench_ids){ .bits = FIRST_BITS };
    if (getrandom(&ids->seed, sizeof ids->seed, GRND_NONBLOCK) != (ssize_t)sizeof ids->seed) {
        ids->seed = bench_now_ns();
    }
    ids->entries = calloc((size_t)1 << ids->bits, sizeof *ids->entries);
    return ids->entries != NULL;
}

void bench_ids_fini(bench_ids *ids)
{
    free(ids->entries);
}

static size_t first_place(const bench_ids *ids, unsigned bits, uint64_t id)
{
    bench_random random = { .state = id ^ ids->seed };
    return (size_t)(bench_random_next(&random) >> (64 - bits));
}

/* In `entries`, which are not the table's own while it grows. */
static bench_id *find(const bench_ids *ids, bench_id *entries, unsigned bits, uint64_t id)
{
    size_t mask = ((size_t)1 << bits) - 1;
    size_t i = first_place(ids, bits, id);
    while (entries[i].is_used && entries[i].id != id) {
        i = (i + 1) & mask;
    }
    return &entries[i];
}

static bool grow(bench_ids *ids)
{
    unsigned bits = ids->bits + 1;
    bench_id *entries = calloc((size_t)1 << bits, sizeof *entries);
    if (!entries) {
        return false;
    }
    for (size_t i = 0; i < (size_t)1 << ids->bits; i++) {
        if (ids->entries[i].is_used) {
            *find(ids, entries, bits, ids->entries[i].id) = ids->entries[i];
        }
    }
    free(ids->entries);
    ids->entries = entries;
    ids->bits = bits;
    return true;
}

bench_id *bench_ids_get(bench_ids *ids, uint64_t id)
{
    bench_id *entry = find(ids, ids->entries, ids->bits, id);
    if (entry->is_used) {
        return entry;
    }
    if (ids->n_entries >= ((size_t)1 << ids->bits) / 2) {
        if (!grow(ids)) {
            return NULL;
        }
        entry = find(ids, ids->entries, ids->bits, id);
    }
    *entry = (bench_id){ .id = id, .is_used = true };
    ids->n_entries++;
    return entry;
}
