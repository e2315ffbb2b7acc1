/* verdict_recorded.c - see verdict_recorded.h. */
#include "bench/ab/verdict_recorded.h"

#include <string.h>

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
        bench_line_put(l, ", which is not counted and a larger device would have served");
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
        bench_line_put(l, " private pool%s of CUDA graphs hold%s ", told->n_pools > 1 ? "s" : "",
                       told->n_pools > 1 ? "" : "s");
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

static bool needs_room(const bench_told *told)
{
    return told->ends_failed || told->has_gone_on;
}

const char *bench_verdict_run_of(const bench_told *told)
{
    return needs_room(told) ? "pleat-runtime --memory 1000G python3 YOUR_SCRIPT.py"
                            : "python3 YOUR_SCRIPT.py";
}

void bench_verdict_write_calls(const bench_told *told, bench_line *start, bench_line *end)
{
    bench_line_put(start, START_CALL "  # before the first tensor");
    bench_line_put(end, END_CALL "  # %s",
                   bench_told_lacks_end(told) && !needs_room(told)
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
    bench_line_put(l, ". So the run needs at least what is said here");
    if (bench_told_lacks_end(told)) {
        bench_line_put(l, ", and \"completes\" means up to where the recording stops");
    }
    if (told->unexplained_bytes > 0) {
        bench_line_put(l, ". On less than ");
        bench_line_size(l, (double)told->unexplained_bytes);
        bench_line_put(l, " only a run tells whether it completes");
    }
    if (bench_told_has_both_ends(told) && !told->has_gone_on) {
        return;
    }
    if (bench_told_is_only_unproven(told)) {
        bench_line_put(l, "%s",
                       told->rise_bytes > 0 ? ". Each further step needs that much more" : "");
        return;
    }
    bench_line_put(l, ". The whole is recorded by " START_CALL " before the first tensor and "
                      "torch.cuda.memory._dump_snapshot after the last step");
    if (needs_room(told)) {
        bench_line_put(l, ", under %s", bench_verdict_run_of(told));
    }
}

void bench_verdict_recorded(const bench_told *told, char out[BENCH_VERDICT_BYTES])
{
    bench_line l = { .text = out };
    out[0] = '\0';
    bench_verdict_write_recorded(told, &l);
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
