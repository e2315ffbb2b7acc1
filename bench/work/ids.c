/* ids.c - which slot the id of a live block has. */
#include "bench/work/ids.h"

#include <stdlib.h>

#define FIRST_BITS 12u

bool bench_ids_init(bench_ids *ids)
{
    *ids = (bench_ids){ .bits = FIRST_BITS };
    ids->entries = calloc((size_t)1 << ids->bits, sizeof *ids->entries);
    return ids->entries != NULL;
}

void bench_ids_fini(bench_ids *ids)
{
    free(ids->entries);
}

/* Fibonacci hashing: ids are mostly small and consecutive. */
static size_t first_place(uint64_t id, unsigned bits)
{
    return (size_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - bits));
}

static bench_id *find(bench_id *entries, unsigned bits, uint64_t id)
{
    size_t mask = ((size_t)1 << bits) - 1;
    size_t i = first_place(id, bits);
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
            *find(entries, bits, ids->entries[i].id) = ids->entries[i];
        }
    }
    free(ids->entries);
    ids->entries = entries;
    ids->bits = bits;
    return true;
}

bench_id *bench_ids_get(bench_ids *ids, uint64_t id)
{
    bench_id *entry = find(ids->entries, ids->bits, id);
    if (entry->is_used) {
        return entry;
    }
    if (ids->n_entries >= ((size_t)1 << ids->bits) / 2) {
        if (!grow(ids)) {
            return NULL;
        }
        entry = find(ids->entries, ids->bits, id);
    }
    *entry = (bench_id){ .id = id, .is_used = true };
    ids->n_entries++;
    return entry;
}
