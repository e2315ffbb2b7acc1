/* ids.c - finds the slot of a live block by its id. */
#include "bench/work/ids.h"

#include <string.h>
#include <sys/random.h>

#include "bench/base/random.h"
#include "vmm/base/clock.h"

#define FIRST_BITS 12u

static size_t bytes_of(unsigned bits)
{
    return sizeof(bench_id) << bits;
}

/* Makes an empty table, or returns NULL. */
static bench_id *make(bench_ids *ids, unsigned bits)
{
    bench_id *entries = bench_host_resize(ids->host, NULL, 0, bytes_of(bits));
    if (entries) {
        memset(entries, 0, bytes_of(bits));
    }
    return entries;
}

bool bench_ids_init(bench_ids *ids, bench_host *host, bool forgets)
{
    *ids = (bench_ids){ .host = host, .bits = FIRST_BITS, .forgets = forgets };
    if (getrandom(&ids->seed, sizeof ids->seed, GRND_NONBLOCK) != (ssize_t)sizeof ids->seed) {
        ids->seed = pl_clock_ns();
    }
    ids->entries = make(ids, ids->bits);
    return ids->entries != NULL;
}

void bench_ids_fini(bench_ids *ids)
{
    if (ids->entries) {
        bench_host_free(ids->host, ids->entries, bytes_of(ids->bits));
    }
}

static size_t first_place(const bench_ids *ids, unsigned bits, uint64_t id)
{
    bench_random random = { .state = id ^ ids->seed };
    return (size_t)(bench_random_next(&random) >> (64 - bits));
}

/* Search `entries`: while the table grows, they are not the table's own. */
static bench_id *find(const bench_ids *ids, bench_id *entries, unsigned bits, uint64_t id)
{
    size_t mask = ((size_t)1 << bits) - 1;
    size_t i = first_place(ids, bits, id);
    while (entries[i].is_used && entries[i].id != id) {
        i = (i + 1) & mask;
    }
    return &entries[i];
}

/* Move the entries into a table twice as large. If fewer than half of the entries live and dead
 * ones may be forgotten, use a new table of equal size. */
static bool make_room(bench_ids *ids)
{
    bool drops = ids->forgets && ids->n_live < ids->n_entries / 2;
    unsigned bits = ids->bits + !drops;
    bench_id *entries = make(ids, bits);
    if (!entries) {
        return false;
    }
    for (size_t i = 0; i < (size_t)1 << ids->bits; i++) {
        const bench_id *entry = &ids->entries[i];
        if (entry->is_used && (entry->is_live || !drops)) {
            *find(ids, entries, bits, entry->id) = *entry;
        }
    }
    bench_host_free(ids->host, ids->entries, bytes_of(ids->bits));
    ids->entries = entries;
    ids->bits = bits;
    ids->n_entries = drops ? ids->n_live : ids->n_entries;
    ids->has_forgotten = ids->has_forgotten || drops;
    return true;
}

bench_id *bench_ids_get(bench_ids *ids, uint64_t id)
{
    bench_id *entry = find(ids, ids->entries, ids->bits, id);
    if (entry->is_used) {
        return entry;
    }
    if (ids->n_entries >= ((size_t)1 << ids->bits) / 2) {
        if (!make_room(ids)) {
            return NULL;
        }
        entry = find(ids, ids->entries, ids->bits, id);
    }
    *entry = (bench_id){ .id = id, .is_used = true };
    ids->n_entries++;
    return entry;
}

void bench_ids_begin(bench_ids *ids, bench_id *entry)
{
    entry->is_live = true;
    ids->n_live++;
}

void bench_ids_end(bench_ids *ids, bench_id *entry)
{
    entry->is_live = false;
    ids->n_live--;
}
