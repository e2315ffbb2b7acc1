/* ids.h - which slot the id of a live block has: ids are a trace's numbers or a recording's
 * addresses. Open addressing over all ids ever seen. */
#ifndef PLEAT_BENCH_IDS_H
#define PLEAT_BENCH_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_id {
    uint64_t id;
    uint32_t slot;
    bool is_live; /* the caller's: false when the id is new */
    bool is_used;
} bench_id;

typedef struct bench_ids {
    bench_id *entries; /* 1 << bits of them */
    unsigned bits;
    size_t n_entries;
    uint64_t seed; /* chance: no file can choose ids that meet in one place */
} bench_ids;

bool bench_ids_init(bench_ids *ids);
void bench_ids_fini(bench_ids *ids);
/* The entry of `id`, made if need be. Valid until the next call. NULL when out of host memory. */
bench_id *bench_ids_get(bench_ids *ids, uint64_t id);

#endif
