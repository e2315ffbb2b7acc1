/* trace_ids.c - which slot a trace's id holds. */
#include "bench/trace_ids.h"

#include <stdlib.h>

#define FIRST_BITS 12u

bool bench_trace_ids_init(bench_trace_ids *ids)
{
    *ids = (bench_trace_ids){ .bits = FIRST_BITS };
    ids->entries = calloc((size_t)1 << ids->bits, sizeof *ids->entries);
    return ids->entries != NULL;
}

void bench_trace_ids_fini(bench_trace_ids *ids)
{
    free(ids->entries);
    free(ids->free_slots);
}

/* Fibonacci hashing: ids are mostly small and consecutive. */
static size_t first_place(uint64_t id, unsigned bits)
{
    return (size_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - bits));
}

static bench_trace_id *find(bench_trace_id *entries, unsigned bits, uint64_t id)
{
    size_t mask = ((size_t)1 << bits) - 1;
    size_t i = first_place(id, bits);
    while (entries[i].is_used && entries[i].id != id) {
        i = (i + 1) & mask;
    }
    return &entries[i];
}

static bool grow(bench_trace_ids *ids)
{
    unsigned bits = ids->bits + 1;
    bench_trace_id *entries = calloc((size_t)1 << bits, sizeof *entries);
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

bench_trace_id *bench_trace_ids_get(bench_trace_ids *ids, uint64_t id)
{
    bench_trace_id *entry = find(ids->entries, ids->bits, id);
    if (entry->is_used) {
        return entry;
    }
    if (ids->n_entries >= ((size_t)1 << ids->bits) / 2) {
        if (!grow(ids)) {
            return NULL;
        }
        entry = find(ids->entries, ids->bits, id);
    }
    *entry = (bench_trace_id){ .id = id, .is_used = true };
    ids->n_entries++;
    return entry;
}

bool bench_trace_ids_take(bench_trace_ids *ids, bench_trace_id *entry, uint64_t bytes)
{
    if (ids->n_free_slots > 0) {
        entry->slot = ids->free_slots[--ids->n_free_slots];
    } else {
        /* Room for every slot on the stack, so that a free needs no memory. */
        if (ids->n_slots == ids->free_capacity) {
            size_t capacity = ids->free_capacity ? 2 * ids->free_capacity : 1024;
            uint32_t *slots = realloc(ids->free_slots, capacity * sizeof *slots);
            if (!slots) {
                return false;
            }
            ids->free_slots = slots;
            ids->free_capacity = capacity;
        }
        entry->slot = ids->n_slots++;
    }
    entry->bytes = bytes;
    return true;
}

void bench_trace_ids_drop(bench_trace_ids *ids, bench_trace_id *entry)
{
    ids->free_slots[ids->n_free_slots++] = entry->slot;
    entry->bytes = 0;
}
