/* cell.c - measures one cell of `pleat ab`, in a process of its own. */
#include "bench/ab/cell.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/run/timed.h"
#include "vmm/base/clock.h"

enum { MOST_REPEATS = 1000, EXPECTED_FIT_RUNS = 12 };

typedef struct series {
    double driver_ms[MOST_REPEATS];
    double later_driver_ms[MOST_REPEATS];
    double seconds[MOST_REPEATS];
    unsigned n;
} series;

typedef struct teller {
    bench_ab_slot *slot;
    double n_runs; /* in all, about */
    double n_over; /* finished runs */
    double last;   /* done fraction of the current run */
} teller;

/* Each run counts from 0 to 1. A search has an unknown number of runs. */
static void tell(void *context, double fraction)
{
    teller *t = context;
    t->n_over += fraction < t->last ? 1.0 : 0.0;
    t->last = fraction;
    double done = (t->n_over + fraction) / t->n_runs;
    atomic_store(&t->slot->parts, (unsigned)((done < 0.99 ? done : 0.99) * BENCH_AB_PARTS));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static bench_ab_spread spread_of(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, ascending);
    double middle = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
    return (bench_ab_spread){ .median = middle, .least = values[0], .most = values[n - 1] };
}

/* Compares everything except the times. */
static bool are_counts_equal(const bench_record *a, const bench_record *b)
{
    return a->peak_reserved_bytes == b->peak_reserved_bytes && a->oom_count == b->oom_count &&
           a->ops_map == b->ops_map && a->ops_unmap == b->ops_unmap &&
           a->ops_alloc == b->ops_alloc && a->ops_free == b->ops_free &&
           a->bytes_created == b->bytes_created && a->bytes_mapped == b->bytes_mapped &&
           a->host_syncs == b->host_syncs && a->stream_waits == b->stream_waits &&
           a->hazards == b->hazards && a->least_memory_bytes == b->least_memory_bytes &&
           memcmp(a->calls, b->calls, sizeof a->calls) == 0;
}

static bool run_once(const bench_ab_cell *cell, const bench_replay_options *options,
                     bench_record *out, bench_failure *failure)
{
    return cell->memory ? bench_replay(cell->work, options, out, failure)
                        : bench_fit(cell->work, options, out, failure);
}

/* The first run's counts are kept; later runs are compared with them. */
static bool run_all(const bench_ab_cell *cell, const bench_replay_options *options, series *times,
                    bench_ab_slot *slot)
{
    static bench_record again;
    bench_ab_result *result = &slot->result;
    bench_replay_options of_run = *options;
    unsigned n_runs = times->n;
    for (times->n = 0; times->n < n_runs; times->n++) {
        bench_record *record = times->n ? &again : &result->record;
        uint64_t begin = pl_clock_ns();
        if (!run_once(cell, &of_run, record, &slot->failure)) {
            return false;
        }
        times->seconds[times->n] = (double)(pl_clock_ns() - begin) / 1e9;
        times->driver_ms[times->n] = record->first_driver_us / 1e3;
        times->later_driver_ms[times->n] = record->later_driver_us / 1e3;
        bool is_equal = are_counts_equal(record, &result->record);
        result->counts_differ = result->counts_differ || !is_equal;
        of_run.timeline = NULL;
    }
    return true;
}

void bench_ab_measure(const bench_ab_plan *plan, unsigned index, bench_ab_slot *slot)
{
    static series times;
    const bench_ab_cell *cell = &plan->cells[index];
    bench_ab_result *result = &slot->result;
    unsigned n_timed = cell->memory ? plan->options.n_timed : 0;
    unsigned n_plain = cell->memory ? plan->options.repeat : EXPECTED_FIT_RUNS;
    teller t = { .slot = slot, .n_runs = n_plain + n_timed };
    bench_progress progress = { .tell = tell, .context = &t };
    bench_replay_options options = {
        .setup = &plan->setup,
        .allocator = cell->allocator,
        .memory_bytes = cell->memory_bytes,
        .loops = plan->options.common.loops,
        .later_passes = cell->memory ? plan->options.later_passes : 0,
        .progress = &progress,
    };
    bench_timeline *timeline = cell->is_drawn ? &slot->timeline : NULL;
    bench_replay_options timed = options;
    options.timeline = n_timed == 0 ? timeline : NULL;
    timed.timeline = timeline; /* with the host's time */
    slot->cell = index + 1;
    result->counts_differ = false;
    times.n = cell->memory ? plan->options.repeat : 1;
    slot->is_ok = run_all(cell, &options, &times, slot) &&
                  bench_timed(cell->work, &timed, n_timed, &result->record, &slot->failure);
    if (slot->is_ok) {
        result->driver_ms = spread_of(times.driver_ms, times.n);
        result->later_driver_ms = spread_of(times.later_driver_ms, times.n);
        result->seconds = spread_of(times.seconds, times.n);
        result->record.first_driver_us = 1e3 * result->driver_ms.median;
        result->record.later_driver_us = 1e3 * result->later_driver_ms.median;
    }
}
