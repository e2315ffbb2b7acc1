/* cell.c - measures one cell of `pleat ab`, in a process of its own. */
#include "bench/ab/cell.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ab/compacted.h"
#include "bench/base/conf.h"
#include "bench/measure/timed.h"
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
    return cell->kind == BENCH_AB_REPLAY ? bench_replay(cell->work, options, out, failure)
                                         : bench_fit(cell->work, options, out, failure);
}

/* The first run's counts are kept; later runs are compared with them. */
static bool run_all(const bench_ab_cell *cell, const bench_replay_options *options, series *times,
                    bench_ab_result *result, bench_failure *failure)
{
    static bench_record again;
    bench_replay_options of_run = *options;
    unsigned n_runs = times->n;
    for (times->n = 0; times->n < n_runs; times->n++) {
        bench_record *record = times->n ? &again : &result->record;
        uint64_t begin = pl_clock_ns();
        if (!run_once(cell, &of_run, record, failure)) {
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

/* PyTorch's models run with what was set in the recorded run, unless the command has a --conf. */
static const bench_setup *setup_of(const bench_ab_plan *plan, const bench_work *work)
{
    static bench_setup setup;
    char conf[BENCH_CONF_BYTES];
    bool is_torch = strncmp(work->origin.allocator, "torch-", 6) == 0;
    bench_conf_modelled(is_torch ? work->origin.conf : "", conf, sizeof conf);
    if (conf[0] == '\0' || plan->options.common.target.conf[0]) {
        return &plan->setup;
    }
    setup = plan->setup;
    return bench_setup_take(&setup, conf) ? &setup : &plan->setup;
}

static bench_replay_options options_of(const bench_ab_plan *plan, const bench_ab_cell *cell,
                                       bench_progress *progress)
{
    bool is_replay = cell->kind == BENCH_AB_REPLAY;
    return (bench_replay_options){
        .setup = setup_of(plan, cell->work),
        .allocator = cell->allocator,
        .memory_bytes = cell->memory_bytes,
        .loops = plan->options.common.loops,
        .later_passes = is_replay ? plan->options.later_passes : 0,
        .progress = progress,
    };
}

static bool measure_with(const bench_ab_plan *plan, const bench_ab_cell *cell,
                         bench_replay_options options, bench_timeline *timeline,
                         bench_ab_result *result, bench_failure *failure)
{
    static series times;
    bool is_replay = cell->kind == BENCH_AB_REPLAY;
    unsigned n_timed = is_replay ? plan->options.n_timed : 0;
    bench_replay_options timed = options;
    options.timeline = n_timed == 0 ? timeline : NULL;
    timed.timeline = timeline; /* with the host's time */
    result->counts_differ = false;
    times.n = is_replay ? plan->options.repeat : 1;
    bool ok = run_all(cell, &options, &times, result, failure) &&
              bench_timed(cell->work, &timed, n_timed, &result->record, failure);
    if (ok) {
        result->driver_ms = spread_of(times.driver_ms, times.n);
        result->later_driver_ms = spread_of(times.later_driver_ms, times.n);
        result->seconds = spread_of(times.seconds, times.n);
        result->record.first_driver_us = 1e3 * result->driver_ms.median;
        result->record.later_driver_us = 1e3 * result->later_driver_ms.median;
    }
    return ok;
}

static void measure_replays(const bench_ab_plan *plan, const bench_ab_cell *cell,
                            bench_progress *progress, bench_ab_slot *slot)
{
    static bench_setup setup;
    bench_replay_options options = options_of(plan, cell, progress);
    bench_timeline *timeline = cell->is_drawn ? &slot->timeline : NULL;
    slot->is_ok = measure_with(plan, cell, options, timeline, &slot->result, &slot->failure);
    slot->has_compacted = slot->is_ok && cell->kind == BENCH_AB_REPLAY &&
                          bench_compacted_setup(plan, cell, options.setup, &setup);
    if (slot->has_compacted) {
        options.setup = &setup;
        slot->is_ok = measure_with(plan, cell, options, NULL, &slot->compacted, &slot->failure);
    }
}

/* The replay without limit, NULL if it was not measured. */
static const bench_record *unlimited_of(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    for (unsigned i = 0; i < plan->n_replays; i++) {
        const bench_ab_cell *other = &plan->cells[i];
        if (other->work == cell->work && other->allocator == cell->allocator &&
            other->memory_bytes == 0 && other->state == BENCH_AB_MEASURED) {
            return &other->result.record;
        }
    }
    return NULL;
}

/* Where the result is known without a replay: on a card with less than the blocks themselves take,
 * and on one that is never filled, since a limit that is never met changes nothing. */
static bool is_card_known(const bench_work *work, const bench_record *unlimited, uint64_t bytes,
                          bench_ab_card *out)
{
    uint64_t padding = (uint64_t)BENCH_BLOCK_UNIT * work->n_slots; /* of blocks of odd sizes */
    if (bytes + padding < work->peak_live_bytes) {
        *out = (bench_ab_card){ .outcome = BENCH_OUTCOME_FAILS,
                                .how = "less than the live blocks" };
        return true;
    }
    if (unlimited && bench_record_is_clean(unlimited) && unlimited->peak_reserved_bytes <= bytes) {
        *out = (bench_ab_card){ .outcome = BENCH_OUTCOME_COMPLETES,
                                .how = "held less without limit" };
        return true;
    }
    return false;
}

static bool replay_card(const bench_ab_cell *cell, bench_replay_options options, unsigned i,
                        bench_ab_card *card, bench_failure *failure)
{
    static bench_record record;
    options.memory_bytes = bench_cards[i].bytes;
    if (!bench_replay(cell->work, &options, &record, failure)) {
        return false;
    }
    *card = (bench_ab_card){ .outcome = bench_record_is_clean(&record) ? BENCH_OUTCOME_COMPLETES
                                                                       : BENCH_OUTCOME_FAILS,
                             .how = bench_ab_replayed,
                             .first_failure_event = record.first_failure_event,
                             .driver_ms = record.first_driver_us / 1e3 };
    return true;
}

/* The least card on which it completes may be known without a replay, but not the driver's time
 * there, which depends on the memory of a device. */
static bool time_least_card(const bench_ab_cell *cell, const bench_replay_options *options,
                            bench_ab_slot *slot)
{
    unsigned least = 0;
    while (least < BENCH_N_CARDS && slot->cards[least].outcome != BENCH_OUTCOME_COMPLETES) {
        least++;
    }
    if (least == BENCH_N_CARDS || slot->cards[least].how == bench_ab_replayed) {
        return true;
    }
    bench_ab_card known = slot->cards[least];
    bool ok = replay_card(cell, *options, least, &slot->cards[least], &slot->failure);
    if (ok && slot->cards[least].outcome == known.outcome) {
        known.driver_ms = slot->cards[least].driver_ms;
        slot->cards[least] = known;
    }
    return ok;
}

/* The cards on which pleat was replayed, with short:compact; the other cards as they are. */
static bool compact_cards(const bench_ab_plan *plan, const bench_ab_cell *cell,
                          bench_replay_options options, bench_ab_slot *slot)
{
    static bench_setup setup;
    if (!bench_compacted_setup(plan, cell, options.setup, &setup)) {
        return true;
    }
    options.setup = &setup;
    slot->has_compacted = true;
    bool ok = true;
    for (unsigned i = 0; i < BENCH_N_CARDS && ok; i++) {
        const bench_ab_card *card = &slot->cards[i];
        slot->compacted_cards[i] = *card;
        if (card->how == bench_ab_replayed) {
            ok = replay_card(cell, options, i, &slot->compacted_cards[i], &slot->failure);
        }
    }
    return ok;
}

static void measure_cards(const bench_ab_plan *plan, const bench_ab_cell *cell,
                          bench_progress *progress, bench_ab_slot *slot)
{
    const bench_record *unlimited = unlimited_of(plan, cell);
    bench_replay_options options = options_of(plan, cell, progress);
    options.stop_at_failure = true;
    slot->is_ok = true;
    for (unsigned i = 0; i < BENCH_N_CARDS && slot->is_ok; i++) {
        bench_ab_card *card = &slot->cards[i];
        slot->is_ok = is_card_known(cell->work, unlimited, bench_cards[i].bytes, card) ||
                      replay_card(cell, options, i, card, &slot->failure);
    }
    slot->is_ok = slot->is_ok && time_least_card(cell, &options, slot) &&
                  compact_cards(plan, cell, options, slot);
}

static void measure_moment(const bench_ab_plan *plan, const bench_ab_cell *cell,
                           bench_progress *progress, bench_ab_slot *slot)
{
    static bench_record record;
    bench_replay_options options = options_of(plan, cell, progress);
    options.memory_bytes = cell->moment.memory_bytes;
    options.loops = 1;
    memset(&slot->moment, 0, sizeof slot->moment);
    slot->moment.event = cell->moment.event;
    options.moment = &slot->moment;
    slot->is_ok = bench_replay(cell->work, &options, &record, &slot->failure);
}

void bench_ab_measure(const bench_ab_plan *plan, unsigned index, bench_ab_slot *slot)
{
    const bench_ab_cell *cell = &plan->cells[index];
    unsigned n_runs = cell->kind == BENCH_AB_REPLAY   ? plan->options.repeat + plan->options.n_timed
                      : cell->kind == BENCH_AB_SEARCH ? EXPECTED_FIT_RUNS
                                                      : 1;
    teller t = { .slot = slot, .n_runs = n_runs };
    bench_progress progress = { .tell = tell, .context = &t };
    slot->cell = index + 1;
    slot->has_compacted = false;
    switch (cell->kind) {
    case BENCH_AB_REPLAY:
    case BENCH_AB_SEARCH:
        measure_replays(plan, cell, &progress, slot);
        break;
    case BENCH_AB_CARDS:
        measure_cards(plan, cell, &progress, slot);
        break;
    case BENCH_AB_PEAK:
    case BENCH_AB_FAILURE:
        measure_moment(plan, cell, &progress, slot);
        break;
    }
}
