/* import_origin.c - a snapshot's facts beyond its events: the run's settings, its held memory, and
 * the recorded part of the run (told.h). */
#include <stdio.h>
#include <string.h>

#include "api/config/config.h"
#include "bench/base/conf.h"
#include "bench/base/text.h"
#include "bench/import/growth.h"
#include "bench/import/optimizer_steps.h"
#include "bench/import/pools.h"
#include "bench/import/recording.h"

/* People limit a history's entries to a round number: of thousands, or a power of two. */
enum { ROUND_ENTRIES = 1000 };

static bool is_round(uint64_t n)
{
    return n >= ROUND_ENTRIES && (n % ROUND_ENTRIES == 0 || (n & (n - 1)) == 0);
}

/* A class of pleat leaves PyTorch's settings unchanged, so the settings of pleat count first. */
void bench_snapshot_name_allocator(const bench_snapshot *snapshot, char *out, size_t n)
{
    bool is_expandable = snapshot->is_expandable || snapshot->has_mappings;
    const char *at = snapshot->conf;
    bench_conf_item item;
    snprintf(out, n, "%s", is_expandable ? "torch-expandable" : "torch-native");
    while (bench_conf_next(&at, &item)) {
        if (bench_conf_is(&item, "expandable_segments") && bench_conf_has_value(&item, "True")) {
            snprintf(out, n, "torch-expandable");
        } else if (bench_conf_is(&item, "allocator")) {
            char name[32]; /* what pleat does not know is of no measure */
            bench_text_clean(item.value, item.n_value, name, sizeof name);
            if (pl_allocator_find(name)) {
                snprintf(out, n, "%s", name);
            }
        } else if (bench_conf_is(&item, "backend") &&
                   bench_conf_has_value(&item, "cudaMallocAsync")) {
            snprintf(out, n, "cuda-async");
        }
    }
    if (snapshot->allocator[0]) {
        snprintf(out, n, "%s", snapshot->allocator);
    }
}

static bool has_item(const char *conf, const bench_conf_item *wanted)
{
    bench_conf_item item;
    while (bench_conf_next(&conf, &item)) {
        if (item.n == wanted->n && memcmp(item.text, wanted->text, item.n) == 0) {
            return true;
        }
    }
    return false;
}

/* Is the text PLEAT_CONF, which names the running allocator, and not PyTorch's setting? */
static bool is_ours(const char *conf)
{
    bench_conf_item item;
    while (bench_conf_next(&conf, &item)) {
        if (bench_conf_is(&item, "allocator")) {
            return true;
        }
    }
    return false;
}

/* The text lists all options of the instance. Keep only the allocator's options that somebody has
 * set. */
static void keep_set_options(char *conf, size_t n)
{
    static const char *const others[] = { "allocator",      "driver",  "sim",       "history",
                                          "history_frames", "metrics", "time_calls" };
    char usual[BENCH_CONF_BYTES];
    pl_config config = { .allocator = pl_allocator_find("pleat"),
                         .metrics_ms = 1000,
                         .device = { .chunk_granules = 1, .handle_rdma = PL_DEMAND_IF_ABLE } };
    pl_allocator_options_init(&config.options);
    if (pl_config_write(&config, usual, sizeof usual) > sizeof usual) {
        return;
    }
    char kept[BENCH_CONF_BYTES] = "";
    const char *at = conf;
    bench_conf_item item;
    for (size_t used = 0; bench_conf_next(&at, &item);) {
        bool is_other = has_item(usual, &item);
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            is_other = is_other || bench_conf_is(&item, others[i]);
        }
        if (!is_other) {
            used += (size_t)snprintf(kept + used, sizeof kept - used, "%s%.*s", used ? "," : "",
                                     (int)item.n, item.text);
        }
    }
    snprintf(conf, n, "%s", kept);
}

/* `refused_on_bytes` is at least the device's memory: the most that a refusal says is free, and the
 * most that the run ever holds. */
static void find_failures(const bench_snapshot *snapshot, const bench_snapshot_held *held,
                          bench_told *out)
{
    bool is_refused = false; /* the last request so far */
    uint64_t most = 0;
    uint64_t most_free = 0;
    for (size_t i = 0; i < snapshot->n_entries; i++) {
        uint8_t action = snapshot->entries[i].action;
        if (action == BENCH_SNAPSHOT_OOM) {
            const bench_snapshot_entry *entry = &snapshot->entries[i];
            is_refused = true;
            most = entry->bytes > most ? entry->bytes : most;
            most_free = entry->address > most_free ? entry->address : most_free;
        } else if (action == BENCH_SNAPSHOT_ALLOC) {
            out->has_gone_on = out->has_gone_on || is_refused;
            is_refused = false;
            out->most_refused_bytes = out->has_gone_on ? most : 0;
        }
    }
    out->ends_failed = is_refused;
    bool is_told = out->ends_failed || out->has_gone_on;
    out->refused_on_bytes = is_told ? most_free + held->most_bytes : 0;
}

/* Blocks lie in memory that was taken from the driver, also if the snapshot tells of none. A
 * request refused at the end counts in the peak and got none. */
static bool holds_too_little(const bench_told *told, const bench_snapshot_held *held,
                             const bench_tape *tape)
{
    uint64_t rounding = (uint64_t)BENCH_BLOCK_UNIT * tape->n_slots;
    return !told->ends_failed && tape->peak_live_bytes > held->most_bytes + rounding;
}

static bench_told read_told(const bench_snapshot *snapshot, const bench_recording *recording,
                            const bench_snapshot_held *held, const bench_tape *tape)
{
    uint64_t n = snapshot->n_entries;
    bench_told told = {
        .has_no_history = n == 0,
        .n_entries = n,
        .live_before_bytes = recording->before_bytes,
        .held_before_bytes = held->before_bytes,
        .lacks_requests = recording->lacks_requests,
        .lacks_ends = recording->lacks_ends,
    };
    if (n == 0) {
        return told;
    }
    told.begins_late = recording->n_before > 0 || held->before_bytes > 0 || recording->is_cut;
    told.has_run_over = snapshot->is_full || is_round(n);
    told.may_run_over = told.has_run_over && !snapshot->is_full && !told.begins_late;
    find_failures(snapshot, held, &told);
    told.is_apart = !recording->leads_to_state || !held->is_consistent ||
                    holds_too_little(&told, held, tape);
    told.ends_early = !told.ends_failed && recording->steps.ends_high;
    told.is_unrepeated = recording->steps.is_unrepeated;
    told.is_growing = recording->steps.is_growing;
    told.n_steps = recording->steps.n_steps;
    told.n_optimizer_steps = bench_optimizer_steps(snapshot);
    told.rise_bytes = recording->steps.rise_bytes;
    told.n_rise_steps = recording->steps.n_rise_steps;
    if (!told.is_apart) {
        bench_growth_look(snapshot, &recording->steps, told.growth);
    }
    return told;
}

/* Without host memory for this the run is read all the same. */
static bench_told add_pools(bench_told told, const bench_snapshot *snapshot)
{
    bench_pools pools;
    if (bench_pools_look(snapshot, &pools)) {
        told.n_pools = pools.n;
        told.pool_bytes = pools.held_bytes;
        told.pool_need_bytes = pools.need_bytes;
    }
    return told;
}

void bench_recording_origin(bench_snapshot *snapshot, bench_recording *recording,
                            const bench_tape *tape, bench_origin *out)
{
    bench_snapshot_held held = bench_snapshot_read_held(snapshot);
    *out = (bench_origin){
        .is_pytorch = true,
        .told = add_pools(read_told(snapshot, recording, &held, tape), snapshot),
        .devices = snapshot->devices,
        .held_bytes = held.most_bytes,
        .stacks = snapshot->stacks,
        .n_stacks = snapshot->n_stacks,
        .stack_of = recording->stack_of,
        .n_stack_of = recording->n_events,
        .state = snapshot->state,
    };
    snapshot->state = (bench_state){ .n_pieces = 0 };
    snapshot->stacks = NULL;
    snapshot->n_stacks = 0;
    recording->stack_of = NULL;
    out->has_failed = out->told.ends_failed || out->told.has_gone_on;
    bench_snapshot_name_allocator(snapshot, out->allocator, sizeof out->allocator);
    snprintf(out->conf, sizeof out->conf, "%s", snapshot->conf);
    if (is_ours(out->conf)) {
        keep_set_options(out->conf, sizeof out->conf);
    }
}
