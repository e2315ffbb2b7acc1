/* fit.c - searches the least device memory for a trace. */
#include "bench/run/fit.h"
#include "bench/base/size.h"

#include <string.h>

#define STEP_BYTES (UINT64_C(2) << 20)

typedef struct search {
    const bench_work *work;
    bench_replay_options options;
    bench_record *best; /* record of the least success so far */
    bench_failure *failure;
    unsigned n_runs;
} search;

/* *completes: no failure and no hazard. If so, keep the record if its memory is the least so
 * far. */
static bool try(search *s, uint64_t memory_bytes, bool *completes)
{
    bench_record record;
    s->options.memory_bytes = memory_bytes;
    s->n_runs++;
    if (s->options.progress) {
        char size[32];
        bench_progress_label(s->options.progress, s->work->n_events * s->options.loops,
                             "%s, run %u, %s: %s", s->options.allocator, s->n_runs,
                             memory_bytes ? bench_size_format(memory_bytes, size, sizeof size)
                                          : "unlimited",
                             s->work->name);
    }
    if (!bench_replay(s->work, &s->options, &record, s->failure)) {
        return false;
    }
    *completes = bench_record_is_clean(&record);
    bool is_least = s->best->least_memory_bytes == 0 ||
                    record.memory_bytes < s->best->least_memory_bytes;
    if (memory_bytes == 0 || (*completes && is_least)) {
        *s->best = record;
        s->best->is_fit = true;
        s->best->least_memory_bytes = *completes && memory_bytes ? memory_bytes : 0;
    }
    return true;
}

/* `high` is the memory of the unlimited run. So it should complete. It runs only if nothing below
 * completed. In the odd case that it fails, it is raised. */
static bool confirm_high(search *s, uint64_t low, uint64_t high)
{
    bool completes = false;
    while (!completes && high < BENCH_UNLIMITED_BYTES) {
        if (!try(s, high, &completes)) {
            return false;
        }
        high += bench_round_up((high - low) / 4 + 1, STEP_BYTES);
    }
    return true;
}

static bool bisect(search *s, uint64_t low, uint64_t high)
{
    uint64_t peak = s->work->peak_live_bytes;
    uint64_t tolerance = peak / 2000 > STEP_BYTES ? peak / 2000 : STEP_BYTES;
    uint64_t first_high = high;
    while (high - low > tolerance) {
        uint64_t middle = (low + (high - low) / 2) / STEP_BYTES * STEP_BYTES;
        bool completes;
        if (!try(s, middle, &completes)) {
            return false;
        }
        if (completes) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high != first_high || confirm_high(s, low, high);
}

bool bench_fit(const bench_work *work, const bench_replay_options *options, bench_record *out,
               bench_failure *failure)
{
    search s = { .work = work, .options = *options, .best = out, .failure = failure };
    s.options.stop_at_failure = true;
    memset(out, 0, sizeof *out);
    bool completes;
    if (!try(&s, 0, &completes)) {
        return false;
    }
    if (!completes) {
        return true;
    }
    uint64_t low = work->peak_live_bytes / STEP_BYTES * STEP_BYTES;
    low = low > STEP_BYTES ? low - STEP_BYTES : 0;
    uint64_t high = bench_round_up(out->peak_reserved_bytes, STEP_BYTES);
    high = high > low ? high : low + STEP_BYTES;
    if (!bisect(&s, low, high)) {
        return false;
    }
    out->ratio = (double)out->least_memory_bytes / (double)work->peak_live_bytes;
    return true;
}
