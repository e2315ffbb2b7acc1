/* record.c - the figures of a replay: start values, and the instance's statistics. */
#include <string.h>

#include "bench/run/replay.h"
#include "bench/run/request.h"

void bench_record_start(bench_record *out, const bench_work *work,
                        const bench_replay_options *options)
{
    const bench_setup *setup = options->setup;
    memset(out, 0, sizeof *out);
    out->is_host = work->is_host;
    snprintf(out->trace, sizeof out->trace, "%s", work->name);
    snprintf(out->allocator, sizeof out->allocator, "%s", options->allocator);
    snprintf(out->driver, sizeof out->driver, "%s", bench_setup_driver(setup));
    out->memory_bytes = options->memory_bytes ? options->memory_bytes
                                              : bench_setup_unlimited(setup, work->is_host);
    out->peak_live_bytes = work->peak_live_bytes;
    out->is_compacted = options->compact;
}

bool bench_record_compact(bench_record *record, pleat instance)
{
    pleat_compaction told;
    if (pleat_device_compact(instance, 0, &told) != PLEAT_OK) {
        return false;
    }
    record->n_compactions++;
    record->compaction_won_bytes += told.won_bytes;
    return true;
}

bool bench_record_read(bench_record *record, pleat instance, const pl_driver *drv,
                       bench_failure *failure)
{
    pleat_stats stats;
    if (pleat_device_stats(instance, 0, &stats) != PLEAT_OK) {
        return bench_fail(failure, "%s: no statistics: %s", record->allocator,
                          bench_request_error());
    }
    record->peak_reserved_bytes = stats.reserved_bytes[PLEAT_SIZES_ALL].peak;
    record->ops_map = stats.ops_map;
    record->ops_unmap = stats.ops_unmap;
    record->ops_alloc = stats.ops_alloc;
    record->ops_free = stats.ops_free;
    record->bytes_created = stats.bytes_created;
    record->bytes_mapped = stats.bytes_mapped;
    record->host_syncs = stats.host_syncs;
    record->retries = stats.num_alloc_retries;
    record->stream_waits = stats.stream_waits;
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        record->calls[i] = pl_driver_n_calls(drv, (pl_entry)i);
    }
    return true;
}

bool bench_record_first_peak(bench_record *record, pleat instance, bench_failure *failure)
{
    pleat_stats stats;
    if (pleat_device_stats(instance, 0, &stats) != PLEAT_OK) {
        return bench_fail(failure, "%s: no statistics: %s", record->allocator,
                          bench_request_error());
    }
    record->first_peak_reserved_bytes = stats.reserved_bytes[PLEAT_SIZES_ALL].peak;
    return true;
}

void bench_record_own(bench_record *record, const bench_own *own)
{
    if (own->n_timed > 0) {
        double ns = bench_own_read(own).own_ns / (double)own->n_timed;
        double own_ns = ns > 0.0 ? ns : 0.0;
        record->own = (bench_own_spread){ .least_ns = own_ns, .most_ns = own_ns, .n_runs = 1 };
    }
}
