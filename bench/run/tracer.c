/* tracer.c - see tracer.h. Each event of the format is an object of jansson's, written at once. */
#include "bench/run/tracer.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "bench/base/size.h"

enum { TRACK_PROCESS, TRACK_CALLS, TRACK_ITERATIONS, TRACK_REFUSALS };

static const char *const level_names[] = {
    [BENCH_LEVEL_LIVE] = "live",       [BENCH_LEVEL_RESIDENT] = "resident",
    [BENCH_LEVEL_MAPPED] = "mapped",   [BENCH_LEVEL_IDLE] = "idle",
    [BENCH_LEVEL_PENDING] = "pending",
};

/* ---- the file -------------------------------------------------------------------------------- */

static int put(const char *text, size_t n, void *context)
{
    bench_tracer *t = context;
    return bench_sink_write(&t->sink, text, n, &t->failure) ? 0 : -1;
}

/* Takes the event. Objects stand in an array, the format's simplest form. */
static void put_event(bench_tracer *t, json_t *event)
{
    if (!event) {
        t->is_failed = t->is_failed || !bench_fail(&t->failure, "out of host memory");
    }
    if (!t->is_failed) {
        const char *between = t->has_any ? ",\n" : "[\n";
        t->is_failed = put(between, strlen(between), t) != 0 ||
                       json_dump_callback(event, put, t, JSON_COMPACT | JSON_REAL_PRECISION(15)) !=
                           0;
        t->has_any = true;
    }
    json_decref(event);
}

/* A time of the axis in microseconds, to the nanosecond, as in the format. */
static double shown_us(double us)
{
    return round(us * 1e3) / 1e3;
}

static double now_us(const bench_tracer *t)
{
    return t->driver_us(t->context) + (double)BENCH_EVENT_US * (double)t->n_events;
}

static bool ends_in_gz(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

bool bench_tracer_open(bench_tracer *t, const char *path, bench_failure *failure)
{
    *t = (bench_tracer){ .pid = 0 };
    return bench_sink_open(&t->sink, path, ends_in_gz(path), true, failure);
}

bool bench_tracer_close(bench_tracer *t, bench_failure *failure)
{
    const char *end = t->has_any ? "\n]\n" : "[]\n";
    t->is_failed = t->is_failed || put(end, strlen(end), t) != 0;
    if (t->is_failed) {
        *failure = t->failure;
    }
    return bench_sink_close(&t->sink, !t->is_failed, failure);
}

/* ---- slices ---------------------------------------------------------------------------------- */

static void put_slice(bench_tracer *t, int track, const char *name, double begin_us, double end_us,
                      json_t *args)
{
    double begin = shown_us(begin_us);
    put_event(t, json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "name", name, "ph", "X", "pid",
                           t->pid, "tid", track, "ts", begin, "dur",
                           shown_us(shown_us(end_us) - begin), "args", args));
}

static void flush_slice(bench_tracer *t)
{
    bench_slice *s = &t->slice;
    if (s->n == 0) {
        return;
    }
    json_t *args = json_pack("{s:I, s:I, s:I}", "calls", (json_int_t)s->n, "bytes",
                             (json_int_t)s->bytes, "event", (json_int_t)s->event);
    if (args && s->failure != 0) {
        json_object_set_new(args, "result", json_integer(s->failure));
    }
    put_slice(t, TRACK_CALLS, pl_entry_symbol(s->entry), s->begin_us, s->end_us, args);
    s->n = 0;
}

/* The driver has been called. */
static void see_call(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    bench_tracer *t = context;
    bench_slice *s = &t->slice;
    double us = t->driver_us(t->context);
    double took_us = us - t->told_us;
    double end_us = now_us(t);
    t->told_us = us;
    if (failure == 0 && bytes == 0 && !(took_us > 0.0)) {
        return;
    }
    if (s->n == 0 || s->entry != entry || s->event != t->n_events || s->failure != failure) {
        flush_slice(t);
        *s = (bench_slice){
            .entry = entry, .failure = failure, .event = t->n_events, .begin_us = end_us - took_us
        };
    }
    s->n++;
    s->bytes += bytes;
    s->end_us = end_us;
}

static void end_iteration(bench_tracer *t)
{
    char name[40];
    if (t->iteration_us >= 0.0) {
        snprintf(name, sizeof name, "iteration %llu", (unsigned long long)t->iteration);
        put_slice(t, TRACK_ITERATIONS, name, t->iteration_us, now_us(t), json_object());
    }
}

void bench_tracer_iteration(bench_tracer *t, uint64_t number)
{
    end_iteration(t);
    t->iteration = number;
    t->iteration_us = now_us(t);
}

void bench_tracer_refusal(bench_tracer *t, uint64_t bytes, uint32_t stream, const char *why)
{
    put_event(t, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:{s:I, s:I, s:I, s:s}}", "name",
                           "refused", "ph", "i", "s", "p", "pid", t->pid, "tid", TRACK_REFUSALS,
                           "ts", shown_us(now_us(t)), "args", "bytes", (json_int_t)bytes, "stream",
                           (json_int_t)stream, "event", (json_int_t)t->n_events, "why", why));
}

/* ---- counters -------------------------------------------------------------------------------- */

static bench_levels read_levels(const bench_tracer *t, uint64_t live_bytes, uint64_t resident_bytes)
{
    pleat_stats stats;
    bench_levels levels = { .us = now_us(t), .number = t->n_events };
    bool is_told = pleat_device_stats(t->instance, 0, &stats) == PLEAT_OK;
    uint64_t idle_bytes = is_told ? stats.idle_bytes : 0;
    levels.bytes[BENCH_LEVEL_LIVE] = live_bytes;
    levels.bytes[BENCH_LEVEL_RESIDENT] = resident_bytes;
    levels.bytes[BENCH_LEVEL_IDLE] = idle_bytes;
    levels.bytes[BENCH_LEVEL_MAPPED] = resident_bytes - idle_bytes;
    levels.bytes[BENCH_LEVEL_PENDING] = is_told ? stats.pending_bytes : 0;
    return levels;
}

static void put_levels(bench_tracer *t, const bench_levels *levels)
{
    for (int i = 0; i < BENCH_N_LEVELS; i++) {
        if (t->has_shown && t->shown[i] == levels->bytes[i]) {
            continue;
        }
        t->shown[i] = levels->bytes[i];
        put_event(t, json_pack("{s:s, s:s, s:i, s:i, s:f, s:{s:I}}", "name", level_names[i], "ph",
                               "C", "pid", t->pid, "tid", TRACK_PROCESS, "ts", shown_us(levels->us),
                               "args", "bytes", (json_int_t)levels->bytes[i]));
    }
    t->has_shown = true;
}

/* Write the moments of the stretch in order; equal moments once. */
static void end_stretch(bench_tracer *t)
{
    bool is_ordered = t->most[0].number <= t->most[1].number;
    const bench_levels *first = &t->most[is_ordered ? 0 : 1];
    const bench_levels *second = &t->most[is_ordered ? 1 : 0];
    put_levels(t, first);
    if (second->number != first->number) {
        put_levels(t, second);
    }
    if (t->last.number != second->number) {
        put_levels(t, &t->last);
    }
    t->n_in = 0;
}

void bench_tracer_event(bench_tracer *t, uint64_t live_bytes, uint64_t resident_bytes)
{
    bool is_first = t->n_in++ == 0;
    t->n_events++;
    bool is_live = is_first || live_bytes > t->most[0].bytes[BENCH_LEVEL_LIVE];
    bool is_resident = is_first || resident_bytes > t->most[1].bytes[BENCH_LEVEL_RESIDENT];
    bool is_last = t->n_in == t->n_stretch;
    if (is_live || is_resident || is_last) {
        t->last = read_levels(t, live_bytes, resident_bytes);
        t->most[0] = is_live ? t->last : t->most[0];
        t->most[1] = is_resident ? t->last : t->most[1];
    }
    if (is_last) {
        end_stretch(t);
    }
    t->told_us = t->driver_us(t->context);
}

/* ---- a replay -------------------------------------------------------------------------------- */

static void put_name(bench_tracer *t, const char *kind, int track, const char *key,
                     const char *name)
{
    put_event(t, json_pack("{s:s, s:s, s:i, s:i, s:f, s:{s:s}}", "name", kind, "ph", "M", "pid",
                           t->pid, "tid", track, "ts", 0.0, "args", key, name));
}

void bench_tracer_begin(bench_tracer *t, const bench_tracer_subject *subject)
{
    char name[1024];
    char size[64];
    char label[128];
    t->pid++;
    t->instance = subject->instance;
    t->drv = subject->drv;
    t->driver_us = subject->driver_us;
    t->context = subject->context;
    t->n_events = 0;
    t->n_in = 0;
    t->n_stretch = (subject->n_events + BENCH_MOST_MOMENTS) / BENCH_MOST_MOMENTS;
    t->has_shown = false;
    t->iteration_us = -1.0;
    t->slice.n = 0;
    snprintf(name, sizeof name, "%s: %s", subject->work, subject->allocator);
    snprintf(label, sizeof label, "device of %s",
             bench_size_format(subject->memory_bytes, size, sizeof size));
    put_name(t, "process_name", TRACK_PROCESS, "name", name);
    put_name(t, "process_labels", TRACK_PROCESS, "labels", label);
    put_name(t, "thread_name", TRACK_CALLS, "name", "driver calls");
    put_name(t, "thread_name", TRACK_ITERATIONS, "name", "iterations");
    put_name(t, "thread_name", TRACK_REFUSALS, "name", "refused allocations");
    bench_levels nothing = { .us = 0.0 };
    put_levels(t, &nothing);
    t->told_us = t->driver_us(t->context);
    pl_driver_watch(t->drv, see_call, t);
}

void bench_tracer_end(bench_tracer *t, uint64_t live_bytes, uint64_t resident_bytes)
{
    pl_driver_watch(t->drv, NULL, NULL);
    flush_slice(t);
    end_iteration(t);
    if (t->n_in > 0) {
        end_stretch(t);
    }
    bench_levels end = read_levels(t, live_bytes, resident_bytes);
    put_levels(t, &end);
}
