/* survey.c - describes a work. */
#include "bench/run/survey.h"

#include <stdio.h>

#include "bench/base/size.h"

static unsigned class_of(uint64_t bytes)
{
    unsigned k = bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;
    return k < SURVEY_CLASSES ? k : SURVEY_CLASSES - 1;
}

static void count(bench_survey *survey, uint64_t bytes)
{
    unsigned k = class_of(bytes);
    survey->n_allocations++;
    survey->allocated_bytes += bytes;
    survey->largest_bytes = bytes > survey->largest_bytes ? bytes : survey->largest_bytes;
    survey->counts[k]++;
    survey->bytes[k] += bytes;
}

bool bench_survey_take(const bench_work *work, bench_survey *out, bench_failure *failure)
{
    bench_cursor cursor;
    *out = (bench_survey){ .n_allocations = 0 };
    if (!bench_cursor_open(work, &cursor, failure)) {
        return false;
    }
    const bench_event *entries;
    size_t n;
    while ((n = bench_cursor_next(&cursor, &entries, failure)) != 0 && n != SIZE_MAX) {
        for (size_t i = 0; i < n; i++) {
            if (bench_event_is_block(&entries[i]) && entries[i].bytes > 0) {
                count(out, entries[i].bytes);
            }
        }
    }
    bench_cursor_close(&cursor);
    return n == 0;
}

static void print_classes(const bench_survey *survey)
{
    printf("  %-24s %14s %7s %14s %7s\n", "blocks up to", "allocations", "%", "bytes", "%");
    for (unsigned k = 0; k < SURVEY_CLASSES; k++) {
        char up_to[32];
        char bytes[32];
        if (survey->counts[k] > 0) {
            printf("  %-24s %14llu %7.2f %14s %7.2f\n",
                   bench_size_format(UINT64_C(1) << k, up_to, sizeof up_to),
                   (unsigned long long)survey->counts[k],
                   100.0 * (double)survey->counts[k] / (double)survey->n_allocations,
                   bench_size_format(survey->bytes[k], bytes, sizeof bytes),
                   100.0 * (double)survey->bytes[k] / (double)survey->allocated_bytes);
        }
    }
}

void bench_survey_print(const bench_work *work, const bench_survey *survey)
{
    char text[32];
    printf("%s\n", work->name);
    printf("  %-24s %14llu\n", "events", (unsigned long long)work->n_events);
    printf("  %-24s %14llu\n", "iterations", (unsigned long long)work->n_marks);
    printf("  %-24s %14u\n", "most live blocks", work->n_slots);
    printf("  %-24s %14s\n", "peak live bytes",
           bench_size_format(work->peak_live_bytes, text, sizeof text));
    if (work->peak_pending_bytes > 0) {
        printf("  %-24s %14s\n", "peak pending bytes",
               bench_size_format(work->peak_pending_bytes, text, sizeof text));
    }
    printf("  %-24s %14u\n", "streams", work->n_streams);
    printf("  %-24s %14s\n", "memory", work->is_host ? "pinned" : "device");
    printf("  %-24s %14s\n", "largest block",
           bench_size_format(survey->largest_bytes, text, sizeof text));
    print_classes(survey);
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *bench_survey_object(const bench_work *work, const bench_survey *survey)
{
    json_t *object = json_object();
    json_t *classes = json_array();
    json_object_set_new(object, "work", json_string(work->name));
    json_object_set_new(object, "events", integer(work->n_events));
    json_object_set_new(object, "iterations", integer(work->n_marks));
    json_object_set_new(object, "max_live_blocks", integer(work->n_slots));
    json_object_set_new(object, "peak_live_bytes", integer(work->peak_live_bytes));
    json_object_set_new(object, "peak_pending_bytes", integer(work->peak_pending_bytes));
    json_object_set_new(object, "streams", integer(work->n_streams));
    json_object_set_new(object, "memory_kind", json_string(work->is_host ? "host" : "device"));
    json_object_set_new(object, "largest_block_bytes", integer(survey->largest_bytes));
    json_object_set_new(object, "allocations", integer(survey->n_allocations));
    json_object_set_new(object, "allocated_bytes", integer(survey->allocated_bytes));
    for (unsigned k = 0; k < SURVEY_CLASSES; k++) {
        if (survey->counts[k] > 0) {
            json_t *row = json_object();
            json_object_set_new(row, "up_to_bytes", integer(UINT64_C(1) << k));
            json_object_set_new(row, "allocations", integer(survey->counts[k]));
            json_object_set_new(row, "bytes", integer(survey->bytes[k]));
            json_array_append_new(classes, row);
        }
    }
    json_object_set_new(object, "sizes", classes);
    return object;
}
