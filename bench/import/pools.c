/* pools.c - see pools.h. */
#include "bench/import/pools.h"

#include <stdlib.h>

typedef struct pool {
    uint64_t live_bytes;
    uint64_t most_bytes; /* so far; of a pool from before the history, its segments then */
} pool;

typedef struct looker {
    const bench_snapshot *snapshot;
    bench_snapshot_private *of; /* a copy, by address; its `pool` is an index in `pools` */
    size_t n;
    pool *pools;
    size_t n_pools;
    uint64_t outside; /* live bytes in no pool */
    uint8_t freed_by; /* an action: of the two entries of a free a history may lack the first */
} looker;

static int by_pool(const void *a, const void *b)
{
    const bench_snapshot_private *x = a;
    const bench_snapshot_private *y = b;
    return (x->pool > y->pool) - (x->pool < y->pool);
}

static int by_address(const void *a, const void *b)
{
    const bench_snapshot_private *x = a;
    const bench_snapshot_private *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* NULL = outside. */
static pool *find(const looker *l, uint64_t address)
{
    size_t first = 0;
    size_t end = l->n;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const bench_snapshot_private *p = &l->of[middle];
        if (address < p->address) {
            end = middle;
        } else if (address - p->address >= p->bytes) {
            first = middle + 1;
        } else {
            return &l->pools[p->pool];
        }
    }
    return NULL;
}

static void take_from(uint64_t *level, uint64_t bytes)
{
    *level -= bytes < *level ? bytes : *level;
}

static void add_segments(looker *l)
{
    qsort(l->of, l->n, sizeof *l->of, by_pool);
    uint64_t before = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->n_pools += i == 0 || l->of[i].pool != before;
        before = l->of[i].pool;
        l->of[i].pool = l->n_pools - 1;
        l->pools[l->n_pools - 1].most_bytes += l->of[i].bytes;
    }
    qsort(l->of, l->n, sizeof *l->of, by_address);
}

/* Back to the beginning of the history. */
static void walk_back(looker *l)
{
    const bench_snapshot *s = l->snapshot;
    for (size_t i = 0; i < s->n_live; i++) {
        pool *in = find(l, s->live[i].address);
        bool is_live = s->live[i].action == BENCH_SNAPSHOT_ALLOC ||
                       l->freed_by == BENCH_SNAPSHOT_FREE_COMPLETED;
        *(in ? &in->live_bytes : &l->outside) += is_live ? s->live[i].bytes : 0;
    }
    for (size_t i = s->n_entries; i-- > 0;) {
        const bench_snapshot_entry *entry = &s->entries[i];
        pool *in = find(l, entry->address);
        uint64_t *live = in ? &in->live_bytes : &l->outside;
        if (entry->action == BENCH_SNAPSHOT_ALLOC) {
            take_from(live, entry->bytes);
        } else if (entry->action == l->freed_by) {
            *live += entry->bytes;
        } else if (in && (entry->action == BENCH_SNAPSHOT_SEGMENT_ALLOC ||
                          entry->action == BENCH_SNAPSHOT_SEGMENT_MAP)) {
            take_from(&in->most_bytes, entry->bytes);
        }
    }
}

static uint64_t walk_on(looker *l)
{
    const bench_snapshot *s = l->snapshot;
    uint64_t kept = 0; /* by the pools */
    for (size_t i = 0; i < l->n_pools; i++) {
        pool *p = &l->pools[i];
        p->most_bytes = p->live_bytes > p->most_bytes ? p->live_bytes : p->most_bytes;
        kept += p->most_bytes;
    }
    uint64_t need = kept + l->outside;
    for (size_t i = 0; i < s->n_entries; i++) {
        const bench_snapshot_entry *entry = &s->entries[i];
        pool *in = find(l, entry->address);
        uint64_t *live = in ? &in->live_bytes : &l->outside;
        if (entry->action == BENCH_SNAPSHOT_ALLOC) {
            *live += entry->bytes;
        } else if (entry->action == l->freed_by) {
            take_from(live, entry->bytes);
        }
        if (in && in->live_bytes > in->most_bytes) {
            kept += in->live_bytes - in->most_bytes;
            in->most_bytes = in->live_bytes;
        }
        need = kept + l->outside > need ? kept + l->outside : need;
    }
    return need;
}

static uint8_t find_free(const bench_snapshot *s)
{
    for (size_t i = 0; i < s->n_entries; i++) {
        if (s->entries[i].action == BENCH_SNAPSHOT_FREE_REQUESTED) {
            return BENCH_SNAPSHOT_FREE_REQUESTED;
        }
    }
    return s->n_entries > 0 ? BENCH_SNAPSHOT_FREE_COMPLETED : BENCH_SNAPSHOT_FREE_REQUESTED;
}

bool bench_pools_look(const bench_snapshot *snapshot, bench_pools *out)
{
    *out = (bench_pools){ .n = 0 };
    looker l = { .snapshot = snapshot, .n = snapshot->n_private, .freed_by = find_free(snapshot) };
    if (l.n == 0) {
        return true;
    }
    l.of = calloc(l.n, sizeof *l.of);
    l.pools = calloc(l.n, sizeof *l.pools);
    bool ok = l.of && l.pools;
    if (ok) {
        for (size_t i = 0; i < l.n; i++) {
            l.of[i] = snapshot->privates[i];
            out->held_bytes += l.of[i].bytes;
        }
        add_segments(&l);
        walk_back(&l);
        out->need_bytes = walk_on(&l);
        out->n = l.n_pools;
    }
    free(l.of);
    free(l.pools);
    return ok;
}
