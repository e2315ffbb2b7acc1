/* rows.c - how a cell of `pleat ab` is written to files. */
#include "bench/ab/rows.h"

#include <stdlib.h>
#include <string.h>

#include "api/pleat.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static uint64_t memory_of(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    return cell->memory_bytes ? cell->memory_bytes
                              : bench_setup_unlimited(&plan->setup, cell->work->is_host);
}

bool bench_rows_heading(const bench_ab_plan *plan, FILE *file)
{
    fputs("work,allocator,driver,memory,memory_bytes,events,peak_live_bytes,peak_resident_bytes,"
          "resident_ratio,failures,device_ops,device_ops_per_1000,bytes_created,bytes_mapped,"
          "host_syncs,stream_waits,hazards,driver_ms,driver_ms_min,driver_ms_max,"
          "later_driver_ms,later_driver_ms_min,later_driver_ms_max,longest_driver_ms,",
          file);
    if (plan->options.n_timed > 0) {
        fputs("allocator_ns_per_event_least,allocator_ns_per_event_most,timed_runs,", file);
    }
    fputs("seconds,seconds_min,seconds_max,repeats,least_memory_bytes,least_ratio,problem\n", file);
    return fflush(file) == 0;
}

/* Quotes texts that may contain a comma or a quote: a work's spec, a message. */
static void write_text(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (const char *p = text; *p; p++) {
        if (*p == '"') {
            putc('"', file);
        }
        putc(*p, file);
    }
    putc('"', file);
}

static void write_counts(FILE *file, const bench_record *r)
{
    fprintf(file, "%llu,%llu,%llu,%.9g,%llu,%llu,%.9g,%llu,%llu,%llu,%llu,%llu,",
            (unsigned long long)r->n_events, (unsigned long long)r->peak_live_bytes,
            (unsigned long long)r->peak_reserved_bytes, bench_output_ratio(r),
            (unsigned long long)r->oom_count, (unsigned long long)bench_record_ops(r),
            bench_output_per_1000(r), (unsigned long long)r->bytes_created,
            (unsigned long long)r->bytes_mapped, (unsigned long long)r->host_syncs,
            (unsigned long long)r->stream_waits, (unsigned long long)r->hazards);
}

static void write_spread(FILE *file, const bench_ab_spread *spread)
{
    fprintf(file, "%.9g,%.9g,%.9g,", spread->median, spread->least, spread->most);
}

bool bench_rows_write(const bench_ab_plan *plan, const bench_ab_cell *cell, FILE *file)
{
    const bench_ab_result *result = &cell->result;
    write_text(file, cell->work->name);
    fprintf(file, ",%s,%s,%s,%llu,", cell->allocator, bench_setup_driver(&plan->setup),
            cell->memory->label, (unsigned long long)memory_of(plan, cell));
    if (cell->state == BENCH_AB_MEASURED) {
        write_counts(file, &result->record);
        write_spread(file, &result->driver_ms);
        if (result->record.n_later) {
            write_spread(file, &result->later_driver_ms);
        } else {
            fputs(",,,", file);
        }
        fprintf(file, "%.9g,", result->record.longest_driver_us / 1e3);
        if (plan->options.n_timed > 0) {
            const bench_own_spread *own = &result->record.own;
            fprintf(file, "%.9g,%.9g,%u,", own->least_ns, own->most_ns, own->n_runs);
        }
        if (plan->options.is_fleet) {
            fputs(",,,", file); /* merged rows do not depend on who measured them */
        } else {
            write_spread(file, &result->seconds);
        }
        fprintf(file, "%u,", plan->options.repeat);
    } else {
        fprintf(file, "%llu,%llu,,,,,,,,,,,,,,,,,,,,,,%s", (unsigned long long)cell->work->n_events,
                (unsigned long long)cell->work->peak_live_bytes,
                plan->options.n_timed > 0 ? ",,," : "");
    }
    const bench_record *fit = bench_ab_fit_of(plan, cell);
    if (fit) {
        fprintf(file, "%llu,%.9g,", (unsigned long long)fit->least_memory_bytes, fit->ratio);
    } else {
        fputs(",,", file);
    }
    write_text(file, cell->problem);
    putc('\n', file);
    return fflush(file) == 0 && !ferror(file);
}

static void set_spread(json_t *object, const char *key, const bench_ab_spread *spread)
{
    char name[64];
    snprintf(name, sizeof name, "%s_min", key);
    json_object_set_new(object, name, json_real(spread->least));
    snprintf(name, sizeof name, "%s_max", key);
    json_object_set_new(object, name, json_real(spread->most));
}

static json_t *measured_object(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    const bench_ab_result *result = &cell->result;
    json_t *object = bench_output_object(&result->record);
    /* The plan gives works of the same name different names. */
    json_object_set_new(object, "trace", json_string(cell->work->name));
    json_object_set_new(object, "memory", json_string(cell->memory->label));
    bool has_seconds = !plan->options.is_fleet;
    json_object_set_new(object, "seconds",
                        has_seconds ? json_real(result->seconds.median) : json_null());
    json_object_set_new(object, "repeats", json_integer(plan->options.repeat));
    if (plan->options.repeat > 1) {
        set_spread(object, "driver_ms", &result->driver_ms);
        if (result->record.n_later) {
            set_spread(object, "later_driver_ms", &result->later_driver_ms);
        }
        if (has_seconds) {
            set_spread(object, "seconds", &result->seconds);
        }
        json_object_set_new(object, "counts_differ", json_boolean(result->counts_differ));
    }
    if (result->record.oom_count) {
        json_object_set_new(object, "first_failure", json_string(result->record.first_failure));
    }
    return object;
}

json_t *bench_rows_object(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    json_t *object;
    if (cell->state == BENCH_AB_MEASURED) {
        object = measured_object(plan, cell);
    } else {
        object = json_object();
        json_object_set_new(object, "trace", json_string(cell->work->name));
        json_object_set_new(object, "allocator", json_string(cell->allocator));
        json_object_set_new(object, "driver", json_string(bench_setup_driver(&plan->setup)));
        json_object_set_new(object, "memory_bytes", integer(memory_of(plan, cell)));
        json_object_set_new(object, "peak_live_bytes", integer(cell->work->peak_live_bytes));
        json_object_set_new(object, "events", integer(cell->work->n_events));
        json_object_set_new(object, "memory", json_string(cell->memory->label));
        json_object_set_new(object, "problem", json_string(cell->problem));
    }
    if (plan->options.is_fit) {
        bench_output_set_fit(object, bench_ab_fit_of(plan, cell));
    }
    return object;
}

json_t *bench_rows_head(const bench_ab_plan *plan, bool is_interrupted)
{
    const bench_ab_options *o = &plan->options;
    char banner[192];
    json_t *head = json_object();
    json_object_set_new(head, "pleat", json_string(pleat_version()));
    json_object_set_new(head, "driver", json_string(bench_setup_driver(&plan->setup)));
    json_object_set_new(head, "gpu", json_string(plan->setup.gpu));
    json_object_set_new(head, "banner",
                        json_string(bench_setup_banner(&plan->setup, banner, sizeof banner)));
    json_object_set_new(head, "conf", json_string(o->common.target.conf));
    json_object_set_new(head, "granule_bytes", integer(plan->setup.granule_bytes));
    json_object_set_new(head, "started", json_string(plan->started));
    json_t *allocators = json_array();
    for (unsigned i = 0; i < o->common.n_allocators; i++) {
        json_array_append_new(allocators, json_string(o->common.allocators[i]));
    }
    json_object_set_new(head, "allocators", allocators);
    json_t *works = json_array();
    for (unsigned i = 0; i < o->common.n_works; i++) {
        json_array_append_new(works, json_string(plan->works[i].name));
    }
    json_object_set_new(head, "works", works);
    json_t *memories = json_array();
    for (unsigned i = 0; i < o->n_memories; i++) {
        json_array_append_new(memories, json_string(o->memories[i].label));
    }
    json_object_set_new(head, "memories", memories);
    json_object_set_new(head, "cells", json_integer(plan->n_replays));
    json_object_set_new(head, "measured", json_integer(bench_ab_count(plan, BENCH_AB_MEASURED)));
    json_object_set_new(head, "is_interrupted", json_boolean(is_interrupted));
    return head;
}

/* One array for each figure: much shorter than an object for each bucket. */
static json_t *buckets_object(const bench_timeline *timeline)
{
    static const char *const keys[] = { "event", "iteration", "live", "resident",
                                        "ops",   "failures",  "syncs" };
    enum { N_KEYS = sizeof keys / sizeof keys[0] };
    json_t *arrays[N_KEYS];
    json_t *object = json_object();
    for (int k = 0; k < N_KEYS; k++) {
        json_object_set_new(object, keys[k], arrays[k] = json_array());
    }
    json_t *host_ns = json_array();
    json_t *driver_us = json_array();
    for (unsigned i = 0; i < timeline->n_buckets; i++) {
        const bench_bucket *b = &timeline->buckets[i];
        const uint64_t values[N_KEYS] = { b->event, b->iteration, b->live_bytes, b->resident_bytes,
                                          b->ops,   b->failures,  b->syncs };
        for (int k = 0; k < N_KEYS; k++) {
            json_array_append_new(arrays[k], integer(values[k]));
        }
        json_array_append_new(host_ns, json_real(b->host_ns));
        json_array_append_new(driver_us, json_real(b->driver_us));
    }
    if (timeline->is_timed) {
        json_object_set(object, "host_ns", host_ns);
    }
    json_decref(host_ns);
    json_object_set_new(object, "driver_us", driver_us);
    return object;
}

char *bench_rows_line(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    size_t n = text ? strlen(text) : 0;
    char *line = text ? realloc(text, n + 2) : NULL;
    if (!line) {
        free(text);
        return NULL;
    }
    memcpy(line + n, "\n", 2);
    return line;
}

char *bench_rows_timeline(const bench_ab_cell *cell, const bench_timeline *timeline)
{
    json_t *object = json_object();
    json_object_set_new(object, "work", json_string(cell->work->name));
    json_object_set_new(object, "allocator", json_string(cell->allocator));
    json_object_set_new(object, "memory", json_string(cell->memory->label));
    json_object_set_new(object, "memory_bytes", integer(cell->result.record.memory_bytes));
    json_object_set_new(object, "peak_live_bytes", integer(timeline->peak_live_bytes));
    json_object_set_new(object, "n_events", integer(timeline->n_events));
    json_object_set_new(object, "n_iterations", integer(timeline->n_iterations));
    json_object_set_new(object, "buckets", buckets_object(timeline));
    return bench_rows_line(object);
}
