/* trace_ids.h - which slot a trace's id holds. Open addressing over all ids ever seen; slots are
 * handed out densely and reused, last freed first. */
#ifndef PLEAT_BENCH_TRACE_IDS_H
#define PLEAT_BENCH_TRACE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_trace_id {
    uint64_t id;
    uint64_t bytes; /* of the live block, rounded; 0 = not live */
    uint32_t slot;
    bool is_used;
} bench_trace_id;

typedef struct bench_trace_ids {
    bench_trace_id *entries; /* 1 << bits of them */
    unsigned bits;
    size_t n_entries;
    uint32_t *free_slots; /* a stack */
    size_t n_free_slots;
    size_t free_capacity;
    uint32_t n_slots;
} bench_trace_ids;

bool bench_trace_ids_init(bench_trace_ids *ids);
void bench_trace_ids_fini(bench_trace_ids *ids);
/* The entry of `id`, made if need be. Valid until the next call. NULL when out of host memory. */
bench_trace_id *bench_trace_ids_get(bench_trace_ids *ids, uint64_t id);
/* Makes the entry live with a slot of its own. False when out of host memory. */
bool bench_trace_ids_take(bench_trace_ids *ids, bench_trace_id *entry, uint64_t bytes);
void bench_trace_ids_drop(bench_trace_ids *ids, bench_trace_id *entry);

#endif
