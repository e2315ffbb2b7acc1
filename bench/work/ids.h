/* ids.h - which slot the id of a live block has: ids are a trace's numbers or a recording's
 * addresses. Open addressing over all ids ever seen, or over those that live and some others. */
#ifndef PLEAT_BENCH_IDS_H
#define PLEAT_BENCH_IDS_H

#include "bench/work/host.h"

typedef struct bench_id {
    uint64_t id;
    uint32_t slot;
    bool is_live; /* the caller's: false when the id is new */
    bool is_used;
} bench_id;

typedef struct bench_ids {
    bench_host *host;
    bench_id *entries; /* 1 << bits of them */
    unsigned bits;
    bool forgets; /* ids that do not live, before the table grows */
    bool has_forgotten;
    size_t n_entries;
    size_t n_live; /* as told by begin and end */
    uint64_t seed; /* chance: no file can choose ids that meet in one place */
} bench_ids;

/* `forgets`: who freed a block is forgotten when there is no room, so that the table is as large as
 * what lives, not as long as the run. */
bool bench_ids_init(bench_ids *ids, bench_host *host, bool forgets);
void bench_ids_fini(bench_ids *ids);
/* The entry of `id`, made if need be. Valid until the next call. NULL: see bench_host_problem. */
bench_id *bench_ids_get(bench_ids *ids, uint64_t id);
/* A block of that entry begins to live; ends. */
void bench_ids_begin(bench_ids *ids, bench_id *entry);
void bench_ids_end(bench_ids *ids, bench_id *entry);

#endif
