/* judge_told.c - see judge_told.h. */
#include "bench/ab/judge_told.h"

#include <stddef.h>
#include <stdio.h>

/* What a recording leaves out, by the names of told.h. */
static const struct {
    const char *key;
    size_t at;
} told_flags[] = {
    { "has_no_history", offsetof(bench_told, has_no_history) },
    { "begins_late", offsetof(bench_told, begins_late) },
    { "has_run_over", offsetof(bench_told, has_run_over) },
    { "is_apart", offsetof(bench_told, is_apart) },
    { "ends_failed", offsetof(bench_told, ends_failed) },
    { "has_gone_on", offsetof(bench_told, has_gone_on) },
    { "may_run_over", offsetof(bench_told, may_run_over) },
    { "ends_early", offsetof(bench_told, ends_early) },
    { "is_unrepeated", offsetof(bench_told, is_unrepeated) },
    { "is_growing", offsetof(bench_told, is_growing) },
    { "lacks_requests", offsetof(bench_told, lacks_requests) },
    { "lacks_ends", offsetof(bench_told, lacks_ends) },
};

static const struct {
    const char *key;
    size_t at;
} told_counts[] = {
    { "entries", offsetof(bench_told, n_entries) },
    { "steps", offsetof(bench_told, n_steps) },
    { "optimizer_steps", offsetof(bench_told, n_optimizer_steps) },
    { "rise_bytes", offsetof(bench_told, rise_bytes) },
    { "rise_steps", offsetof(bench_told, n_rise_steps) },
    { "live_before_bytes", offsetof(bench_told, live_before_bytes) },
    { "held_before_bytes", offsetof(bench_told, held_before_bytes) },
    { "most_refused_bytes", offsetof(bench_told, most_refused_bytes) },
    { "refused_on_bytes", offsetof(bench_told, refused_on_bytes) },
    { "pools", offsetof(bench_told, n_pools) },
    { "pool_bytes", offsetof(bench_told, pool_bytes) },
    { "pool_need_bytes", offsetof(bench_told, pool_need_bytes) },
    { "unexplained_bytes", offsetof(bench_told, unexplained_bytes) },
    { "replayed_bytes", offsetof(bench_told, replayed_bytes) },
};

enum {
    N_TOLD_FLAGS = sizeof told_flags / sizeof told_flags[0],
    N_TOLD_COUNTS = sizeof told_counts / sizeof told_counts[0],
};

json_t *bench_told_object(const bench_told *told)
{
    json_t *object = json_object();
    json_object_set_new(object, "is_whole", json_boolean(bench_told_is_whole(told)));
    for (unsigned i = 0; i < N_TOLD_FLAGS; i++) {
        bool is_so = *(const bool *)((const char *)told + told_flags[i].at);
        json_object_set_new(object, told_flags[i].key, json_boolean(is_so));
    }
    for (unsigned i = 0; i < N_TOLD_COUNTS; i++) {
        uint64_t count = *(const uint64_t *)((const char *)told + told_counts[i].at);
        json_object_set_new(object, told_counts[i].key, json_integer((json_int_t)count));
    }
    json_object_set_new(object, "growth", json_string(told->growth));
    return object;
}

void bench_told_read(const json_t *verdict, bench_told *out)
{
    const json_t *object = json_object_get(verdict, "recorded");
    *out = (bench_told){ .n_entries = 0 };
    for (unsigned i = 0; i < N_TOLD_FLAGS; i++) {
        *(bool *)((char *)out +
                  told_flags[i].at) = json_is_true(json_object_get(object, told_flags[i].key));
    }
    for (unsigned i = 0; i < N_TOLD_COUNTS; i++) {
        json_int_t count = json_integer_value(json_object_get(object, told_counts[i].key));
        *(uint64_t *)((char *)out + told_counts[i].at) = (uint64_t)count;
    }
    const char *growth = json_string_value(json_object_get(object, "growth"));
    snprintf(out->growth, sizeof out->growth, "%s", growth ? growth : "");
}

json_t *bench_devices_object(const bench_devices *of)
{
    if (of->n_others == 0) {
        return json_null();
    }
    json_t *object = json_object();
    json_t *others = json_array();
    json_t *needs = json_array();
    json_t *have_failed = json_array();
    for (unsigned i = 0; i < of->n_others; i++) {
        json_array_append_new(others, json_integer(of->others[i]));
        json_array_append_new(needs, json_integer((json_int_t)of->needs[i]));
        json_array_append_new(have_failed, json_boolean(of->have_failed[i]));
    }
    json_object_set_new(object, "judged", json_integer(of->judged));
    json_object_set_new(object, "is_asked", json_boolean(of->is_asked));
    json_object_set_new(object, "has_failed", json_boolean(of->has_failed));
    json_object_set_new(object, "others", others);
    json_object_set_new(object, "needs", needs);
    json_object_set_new(object, "have_failed", have_failed);
    return object;
}

void bench_devices_read(const json_t *verdict, bench_devices *out)
{
    const json_t *object = json_object_get(verdict, "snapshot_devices");
    *out = (bench_devices){
        .judged = (int)json_integer_value(json_object_get(object, "judged")),
        .is_asked = json_is_true(json_object_get(object, "is_asked")),
        .has_failed = json_is_true(json_object_get(object, "has_failed")),
    };
    const json_t *needs = json_object_get(object, "needs");
    const json_t *have_failed = json_object_get(object, "have_failed");
    size_t i;
    json_t *other;
    json_array_foreach(json_object_get(object, "others"), i, other)
    {
        if (i < BENCH_MOST_OTHERS) {
            out->needs[i] = (uint64_t)json_integer_value(json_array_get(needs, i));
            out->have_failed[i] = json_is_true(json_array_get(have_failed, i));
            out->others[out->n_others++] = (int)json_integer_value(other);
        }
    }
}
