/* verdict_recorded.c - see verdict_recorded.h. */
#include "bench/ab/verdict_recorded.h"

#include <string.h>

#include "bench/ab/verdict_words.h"

/* pleat-runtime records nothing itself: the script's two calls do, on any device. */
#define START_CALL "torch.cuda.memory._record_memory_history(max_entries=10_000_000)"
#define END_CALL "torch.cuda.memory._dump_snapshot(\"whole.pickle\")"

/* What is missing at the start. */
static void put_start(const bench_told *told, bench_line *l)
{
    if (told->has_no_history) {
        bench_line_put(l, "no history, only the blocks that lived at the moment of the snapshot");
        return;
    }
    if (told->has_run_over || told->begins_late) {
        bench_line_put(l, "begins in the middle: ");
    }
    if (told->has_run_over) {
        bench_line_put(l, "its ring of ");
        bench_line_count(l, told->n_entries);
        bench_line_put(l, " entries is %sfull%s", told->may_run_over ? "perhaps " : "",
                       told->begins_late ? "; " : "");
    }
    if (told->begins_late) {
        bench_line_size(l, (double)told->live_before_bytes);
        bench_line_put(l, " lived%s", told->live_before_bytes == 0 ? ", as far as it tells," : "");
        if (told->held_before_bytes > 0) {
            bench_line_put(l, " and ");
            bench_line_size(l, (double)told->held_before_bytes);
            bench_line_put(l, " were held");
        }
        bench_line_put(l, " before its first entry");
    }
    if (told->is_apart) {
        bench_line_put(l, "%sits entries and the blocks of the snapshot disagree, as after a gap",
                       l->used > 0 ? "; " : "");
    }
}

static void put_end(const bench_told *told, bench_line *l)
{
    if (told->ends_failed) {
        bench_line_put(l, "%sends out of memory", l->used > 0 ? "; " : "");
    }
    if (told->has_gone_on) {
        bench_line_put(l, "%sgoes on after a refused request", l->used > 0 ? "; " : "");
        if (told->most_refused_bytes > 0) {
            bench_line_put(l, " of ");
            bench_line_size(l, (double)told->most_refused_bytes);
        }
        bench_line_put(l, ", which is not counted: %s",
                       bench_told_wants_room(told)
                           ? "a larger device would have served it, a smaller one refuses more"
                           : "it takes what a device has, so the need is that on its own");
    }
    if (told->ends_early) {
        bench_line_put(l,
                       "%sends in the middle of a step, or still grows: more lives at its end "
                       "than between two steps before",
                       l->used > 0 ? "; " : "");
    }
    if (told->rise_bytes > 0) {
        bench_line_put(l, "%swhat lives between two steps rises by ", l->used > 0 ? "; " : "");
        bench_line_size(l, (double)told->rise_bytes);
        bench_line_put(l, " a step, on the mean of ");
        bench_line_count(l, told->n_rise_steps);
        bench_line_put(l, " steps");
    }
}

/* Nothing is missing, but a longer run may need more. */
static void put_doubt(const bench_told *told, bench_line *l)
{
    const char *before = l->used > 0 ? "; " : "";
    if (told->is_unrepeated) {
        bench_line_put(l, "%s%s, so a longer run may need more", before,
                       told->n_steps < 2 ? "no step was seen to repeat"
                                         : "the largest step was not seen to repeat often enough");
    } else if (told->is_growing && told->rise_bytes == 0) {
        bench_line_put(l, "%sits steps grow, so a longer run may need more", before);
    }
}

static void put_reason(const bench_told *told, bench_line *l)
{
    const char *before = l->used > 0 ? "; " : "";
    if (told->n_pools > 0) {
        bench_line_put(l, "%s", before);
        bench_line_count(l, told->n_pools);
        bench_line_put(l, " private pool%s of graphs or MemPools hold%s ",
                       told->n_pools > 1 ? "s" : "", told->n_pools > 1 ? "" : "s");
        bench_line_size(l, (double)told->pool_bytes);
        bench_line_put(l, " apart from all else, which a replay does not");
        before = "; ";
    }
    if (told->unexplained_bytes > 0) {
        bench_line_put(l, "%sthe run held ", before);
        bench_line_size(l, (double)told->unexplained_bytes);
        bench_line_put(l, ", its replay ");
        bench_line_size(l, (double)told->replayed_bytes);
        bench_line_put(l, "%s",
                       told->n_pools > 0 ? ""
                                         : ", so the history does not explain the "
                                           "rest (a private pool, a rounding?)");
    }
}

static const char *run_of(const bench_told *told)
{
    return bench_told_wants_room(told) ? "pleat-runtime --memory 1000G python3 YOUR_SCRIPT.py"
                                       : "python3 YOUR_SCRIPT.py";
}

void bench_verdict_write_calls(const bench_told *told, bench_line *start, bench_line *end)
{
    bench_line_put(start, START_CALL "  # before the first tensor");
    bench_line_put(end, END_CALL "  # %s",
                   bench_told_wants_room(told) ? "after the last step"
                   : told->ends_early || bench_told_is_unproven(told)
                       ? "after more steps, and between two"
                       : "after the last step");
}

void bench_verdict_write_recorded(const bench_told *told, bench_line *l)
{
    if (bench_told_is_whole(told)) {
        return;
    }
    put_start(told, l);
    put_end(told, l);
    put_doubt(told, l);
    put_reason(told, l);
    bench_line_put(l, "%s",
                   told->is_apart      ? ". So the run may need less or more than is said here"
                   : told->has_gone_on ? ""
                                       : ". So the run needs at least what is said here");
    bench_line_put(l, "%s", told->rise_bytes > 0 ? ". Each further step needs that much more" : "");
    if (!bench_told_wants_recording(told)) {
        bench_line_put(l, ". Only a run tells which device is enough");
    } else if (bench_told_is_cut(told)) {
        bench_line_put(l,
                       ". The whole is recorded by " START_CALL " before the first tensor and "
                       "torch.cuda.memory._dump_snapshot after the last step%s%s",
                       bench_told_wants_room(told) ? ", under " : "",
                       bench_told_wants_room(told) ? run_of(told) : "");
    }
}

void bench_verdict_recorded(const bench_told *told, char out[BENCH_VERDICT_BYTES])
{
    bench_line l = { .text = out };
    out[0] = '\0';
    bench_verdict_write_recorded(told, &l);
}

/* ---- what a part tells (R8) ---- */

void bench_verdict_write_fails_on(const bench_verdict_input *in, bench_line *l)
{
    bool has_any = false;
    bench_line_put(l, "unknown beyond what was recorded");
    for (unsigned first = 0, end; first < in->n_devices; first = end) {
        end = bench_verdict_end_of(in, first);
        unsigned n_bad = bench_verdict_count(in, first, BENCH_OUTCOME_FAILS);
        if (n_bad == 0) {
            continue;
        }
        bench_line_put(l, "%s", has_any ? ", and on " : ", which fails on ");
        has_any = true;
        bench_verdict_put_devices(in, first, end, l);
        if (n_bad == in->n_settings) {
            bool needs_more = in->need_bytes > in->devices[first].bytes;
            bench_line_put(l, " under all%s", needs_more ? " (it needs more)" : "");
        } else {
            bench_line_put(l, " under ");
            bench_verdict_put_names(in, first, BENCH_OUTCOME_FAILS, l);
        }
    }
    bench_line_put(l, "%s", !has_any ? ", which rules out none of these sizes" : "");
}

/* Fails each candidate there? What was not measured fails only below the need. */
static bool is_too_small(const bench_verdict_input *in, const char *in_force, unsigned device)
{
    bool needs_more = in->need_bytes > in->devices[device].bytes;
    return bench_verdict_count(in, device, BENCH_OUTCOME_FAILS) == in->n_settings &&
           (needs_more || bench_verdict_has_all(in, in_force));
}

/* The largest such device below `device`, or BENCH_VERDICT_NOWHERE. */
static unsigned ruled_out(const bench_verdict_input *in, const bench_verdict *v, unsigned device)
{
    for (unsigned d = device; d-- > 0;) {
        if (is_too_small(in, v->in_force, d)) {
            return d;
        }
    }
    return BENCH_VERDICT_NOWHERE;
}

/* A part tells only which devices are too small. */
static void put_ruled_out(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    unsigned possible = bench_verdict_least_of(in, v, v->so_far);
    const bench_verdict_device *device = &in->devices[possible];
    unsigned small = ruled_out(in, v, possible);
    if (small != BENCH_VERDICT_NOWHERE && bench_told_rules_out(&in->told)) {
        bench_line_put(l, ". %s is not enough, whatever the setting", in->devices[small].label);
    }
    if (bench_verdict_is_measured(in, v->in_force) &&
        bench_verdict_least_of(in, v, v->in_force) > possible) {
        bench_line_put(l, ". On %s what was recorded fails with %s, and not with %s", device->label,
                       bench_verdict_words_of(v->in_force), bench_verdict_words_of(v->so_far));
    }
    if (in->told.rise_bytes > 0 && device->bytes > in->need_bytes) {
        bench_line_put(l, ". By the rise, ");
        bench_line_count(l, (device->bytes - in->need_bytes) / in->told.rise_bytes);
        bench_line_put(l, " further steps fill %s", device->label);
    }
}

/* Who recorded a run that died asks first whether that request would have been served. */
static void put_that_device(const bench_verdict_input *in, bench_line *l)
{
    uint64_t mib = in->told.refused_on_bytes >> 20;
    bool is_there = false;

    for (unsigned i = 0; i < in->n_devices; i++) {
        is_there = is_there || in->devices[i].bytes >> 20 == mib;
    }
    if (in->told.ends_failed && mib > 0 && !is_there && in->n_ranks == 0) {
        bench_line_put(l,
                       ". Would another setting have served the refused request? pleat ab '%s' "
                       "--memory %lluM",
                       in->work, (unsigned long long)mib);
    }
}

void bench_verdict_write_record(const bench_verdict_input *in, const bench_verdict *v,
                                bench_line *l)
{
    const char *what = "Only a run tells which device is enough";
    if (bench_told_wants_recording(&in->told)) {
        what = bench_told_is_cut(&in->told)
                   ? "Record the whole run before you choose: what is missing may need more"
                   : "Record more steps before you choose: later ones may need more";
    }
    bench_line_put(l, "%s", what);
    if (v->so_far) {
        put_ruled_out(in, v, l);
    }
    put_that_device(in, l);
}

void bench_verdict_write_what_tells(const bench_verdict_input *in, const bench_verdict *v,
                                    bench_line *l)
{
    unsigned device = v->so_far ? bench_verdict_least_of(in, v, v->so_far) : in->n_devices - 1;
    if (bench_told_wants_recording(&in->told)) {
        bench_line_put(l, "%s", run_of(&in->told));
    } else {
        bench_verdict_put_run(&in->devices[device], l);
    }
}

/* ---- the device ---- */

/* FILE:device=N of a work as it was typed. Its other options stay. */
static void put_file(const char *work, int device, bench_line *l)
{
    const char *colon = strrchr(work, ':');
    bool has_options = colon && strchr(colon, '=');
    bench_line_put(l, "%.*s:device=%d", has_options ? (int)(colon - work) : (int)strlen(work), work,
                   device);
    while (has_options && *colon) {
        const char *item = colon + 1;
        size_t n = strcspn(item, ",");
        if (strncmp(item, "device=", 7) != 0) {
            bench_line_put(l, ",%.*s", (int)n, item);
        }
        colon = item + n;
    }
}

void bench_verdict_write_device(const bench_verdict_input *in, bench_line *l)
{
    const bench_devices *devices = &in->of;
    if (devices->n_others == 0) {
        return;
    }
    if (in->n_ranks > 0) {
        bench_line_put(l, "of rank %s, ", in->worst);
    }
    const char *why = devices->is_asked     ? "as asked for"
                      : devices->has_failed ? "which ran out of memory"
                                            : "which needs most";
    bench_line_put(l, "device %d is judged, %s; with memory, too: ", devices->judged, why);
    for (unsigned i = 0; i < devices->n_others; i++) {
        bench_line_put(l, "%s%d (", i > 0 ? ", " : "", devices->others[i]);
        bench_line_put(l, "%sat least ",
                       devices->have_failed[i]
                           ? devices->has_failed ? "out of memory, too; " : "out of memory; "
                           : "");
        bench_line_size(l, (double)devices->needs[i]);
        bench_line_put(l, ")");
    }
    bench_line_put(l, ". Type pleat ab '");
    put_file(in->work, devices->others[0], l);
    bench_line_put(l, "'%s", devices->n_others > 1 ? ", and so on" : "");
}
