/* ids.h - finds the slot of a live block by its id: ids are a trace's numbers or a recording's
 * addresses. Open addressing over all ids ever seen, or over the live ones and a part of the dead
 * ones. */
#ifndef PLEAT_BENCH_IDS_H
#define PLEAT_BENCH_IDS_H

#include "bench/work/host.h"

typedef struct bench_id {
    uint64_t id;
    uint32_t slot;
    bool is_live; /* the caller's: false for a new id */
    bool is_used;
    bool is_marked; /* the caller's, too */
} bench_id;

typedef struct bench_ids {
    bench_host *host;
    bench_id *entries; /* 1 << bits entries */
    unsigned bits;
    bool forgets; /* drops ids that are not live before the table grows */
    bool has_forgotten;
    size_t n_entries;
    size_t n_live; /* maintained by begin and end */
    uint64_t seed; /* random, so that a file cannot choose colliding ids */
} bench_ids;

/* With `forgets`, ids of freed blocks are dropped when room is short. So the table grows with the
 * number of live blocks, not with the length of the run. */
bool bench_ids_init(bench_ids *ids, bench_host *host, bool forgets);
void bench_ids_fini(bench_ids *ids);
/* The entry of `id`, made if need be. Valid until the next call. NULL: see bench_host_problem. */
bench_id *bench_ids_get(bench_ids *ids, uint64_t id);
/* Begin or end the life of the entry's block. */
void bench_ids_begin(bench_ids *ids, bench_id *entry);
void bench_ids_end(bench_ids *ids, bench_id *entry);

#endif
