/* jobs.c - see jobs.h. */
#include "bench/ab/fleet/jobs.h"

#include <math.h>
#include <string.h>

#include "bench/ab/judge.h"
#include "bench/ab/judge_told.h"

/* Without "." and empty parts: one folder may be spelled in several ways. */
static void plain_path(const char *spec, char *out, size_t capacity)
{
    size_t n = 0;
    if (*spec == '/') {
        out[n++] = '/';
    }
    for (const char *p = spec; *p && n + 1 < capacity;) {
        size_t step = strcspn(p, "/");
        if (step > 0 && !(step == 1 && *p == '.')) {
            int wrote = snprintf(out + n, capacity - n, "%.*s%s", (int)step, p, p[step] ? "/" : "");
            n += (size_t)wrote;
        }
        p += step + (p[step] == '/');
    }
}

const char *bench_job_name(const char *spec, char *out, size_t n)
{
    char path[4096] = "";
    plain_path(spec, path, sizeof path);
    const char *slash = strrchr(path, '/');
    if (!slash) {
        snprintf(out, n, "job");
    } else {
        bench_text_clean(path, slash > path ? (size_t)(slash - path) : 1, out, n);
    }
    return out;
}

json_t *bench_job_rank(const bench_ab_plan *plan)
{
    const bench_work *work = &plan->works[0];
    json_t *rank = json_object();
    json_object_set_new(rank, "spec", json_string(plan->options.common.works[0]));
    json_object_set_new(rank, "n_events", json_integer((json_int_t)work->n_events));
    json_object_set_new(rank, "conf", json_string(work->origin.conf));
    json_object_set_new(rank, "is_rmm", json_boolean(work->origin.is_rmm));
    return rank;
}

json_t *bench_jobs_create(void)
{
    return json_object();
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static uint64_t count_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* The least memory by allocator, from the first row of each; 0 = none was found. */
static json_t *least_of(const json_t *unit, const json_t *allocators)
{
    json_t *least = json_array();
    size_t a;
    json_t *allocator;
    json_array_foreach(allocators, a, allocator)
    {
        uint64_t bytes = 0;
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(unit, "results"), i, row)
        {
            bool is_it = json_equal(json_object_get(row, "allocator"), allocator);
            uint64_t found = is_it ? count_of(row, "least_memory_bytes") : 0;
            bytes = bytes ? bytes : found;
        }
        json_array_append_new(least, json_integer((json_int_t)bytes));
    }
    return least;
}

static const char *problem_of(const json_t *unit)
{
    const char *problem = text_of(unit, "problem");
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(unit, "results"), i, row)
    {
        problem = *problem ? problem : text_of(row, "problem");
    }
    return *problem ? problem : "a search or a card was not measured";
}

bool bench_jobs_add(json_t *jobs, const json_t *unit, const json_t *allocators)
{
    const char *name = text_of(unit, "job");
    json_t *ranks = json_object_get(jobs, name);
    if (!ranks) {
        ranks = json_array();
        json_object_set_new(jobs, name, ranks);
    }
    json_t *rank = json_object();
    bool is_good = json_is_true(json_object_get(unit, "is_good"));
    json_object_set(rank, "name", json_object_get(unit, "name"));
    if (json_object_get(unit, "verdict")) {
        json_object_set(rank, "verdict", json_object_get(unit, "verdict"));
        json_object_set(rank, "rank", json_object_get(unit, "rank"));
        json_object_set_new(rank, "least", least_of(unit, allocators));
    }
    if (!is_good) {
        json_object_set_new(rank, "problem", json_string(problem_of(unit)));
    }
    return json_array_append_new(ranks, rank) == 0;
}

/* ---- one job --------------------------------------------------------------------------------- */

/* The outcome of a setting on the device of that label, of which each rank has its own order. */
static bench_outcome outcome_of(const json_t *verdict, unsigned s, const char *sizes,
                                const char *outcomes, const char *label)
{
    const json_t *setting = json_array_get(json_object_get(verdict, "settings"), s);
    size_t k;
    json_t *device;
    json_array_foreach(json_object_get(verdict, sizes), k, device)
    {
        const json_t *outcome = json_array_get(json_object_get(setting, outcomes), k);
        if (strcmp(text_of(device, "label"), label) == 0 && json_is_boolean(outcome)) {
            return json_is_true(outcome) ? BENCH_OUTCOME_COMPLETES : BENCH_OUTCOME_FAILS;
        }
    }
    return BENCH_OUTCOME_UNKNOWN;
}

static unsigned list_sizes(const json_t *verdict, const char *key, bench_verdict_device *out)
{
    unsigned n = 0;
    size_t k;
    json_t *device;
    json_array_foreach(json_object_get(verdict, key), k, device)
    {
        if (n < BENCH_VERDICT_DEVICES) {
            out[n++] = (bench_verdict_device){ .label = text_of(device, "label"),
                                               .bytes = count_of(device, "bytes") };
        }
    }
    return n;
}

static void unite_outcomes(const json_t *ranks, unsigned s, const char *sizes, const char *outcomes,
                           const bench_verdict_device *devices, unsigned n, bench_outcome *out)
{
    for (unsigned d = 0; d < n; d++) {
        out[d] = BENCH_OUTCOME_COMPLETES;
        size_t i;
        json_t *rank;
        json_array_foreach(ranks, i, rank)
        {
            const json_t *verdict = json_object_get(rank, "verdict");
            out[d] = bench_outcome_worse(out[d],
                                         outcome_of(verdict, s, sizes, outcomes, devices[d].label));
        }
    }
}

static void unite_times(const json_t *ranks, unsigned s, unsigned n, double *out)
{
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        const json_t *verdict = json_object_get(rank, "verdict");
        const json_t *of = json_array_get(json_object_get(verdict, "settings"), s);
        for (unsigned d = 0; d < n; d++) {
            const json_t *time = json_array_get(json_object_get(of, "driver_ms"), d);
            out[d] = fmax(out[d], json_number_value(time));
        }
    }
}

static void unite_settings(const json_t *ranks, const json_t *allocators, bench_verdict_input *out)
{
    size_t a;
    json_t *allocator;
    json_array_foreach(allocators, a, allocator)
    {
        if (a == BENCH_VERDICT_SETTINGS) {
            break;
        }
        bench_verdict_setting *setting = &out->settings[out->n_settings++];
        setting->allocator = json_string_value(allocator);
        unite_outcomes(ranks, (unsigned)a, "devices", "on", out->devices, out->n_devices,
                       setting->on);
        unite_outcomes(ranks, (unsigned)a, "near", "near", out->near, out->n_near, setting->near);
        unite_times(ranks, (unsigned)a, out->n_devices, setting->driver_ms);
        size_t i;
        json_t *rank;
        json_array_foreach(ranks, i, rank)
        {
            const json_t *verdict = json_object_get(rank, "verdict");
            const json_t *of = json_array_get(json_object_get(verdict, "settings"), a);
            uint64_t held = count_of(of, "held_bytes");
            setting->held_bytes = held > setting->held_bytes ? held : setting->held_bytes;
        }
    }
}

/* The rank that needs most, of equal ones the first; NULL: none was measured. */
static const json_t *find_worst(const json_t *ranks)
{
    const json_t *worst = NULL;
    uint64_t most = 0;
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        const json_t *verdict = json_object_get(rank, "verdict");
        uint64_t need = count_of(verdict, "need_bytes");
        if (verdict && (!worst || need > most)) {
            worst = rank;
            most = need;
        }
    }
    return worst;
}

/* As describe_works of judge.c has it. */
static void describe_ranks(const json_t *ranks, const json_t *worst, bench_verdict_input *out)
{
    const json_t *verdict = json_object_get(worst, "verdict");
    const json_t *told = json_object_get(worst, "rank");
    double sum = 0.0;
    unsigned n_measured = 0;
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        const json_t *of = json_object_get(rank, "verdict");
        uint64_t own_bytes = count_of(of, "own_held_bytes");
        n_measured += of != NULL;
        sum += (double)count_of(of, "need_bytes");
        out->own_bytes = own_bytes > out->own_bytes ? own_bytes : out->own_bytes;
        out->own_failed = out->own_failed || json_is_true(json_object_get(of, "own_failed"));
        out->is_simulated = out->is_simulated || json_is_true(json_object_get(of, "is_simulated"));
        bench_told recorded;
        bench_told_read(of, &recorded);
        bench_told_unite(&out->told, &recorded);
    }
    bench_devices_read(verdict, &out->of);
    out->work = text_of(told, "spec");
    out->worst = text_of(verdict, "worst");
    out->need_bytes = count_of(verdict, "need_bytes");
    out->pending_bytes = count_of(verdict, "pending_bytes");
    out->peak_event = count_of(verdict, "peak_event");
    out->n_events = count_of(told, "n_events");
    out->n_ranks = (unsigned)json_array_size(ranks);
    out->n_unknown = out->n_ranks - n_measured;
    out->mean_need = sum / n_measured;
    out->own = json_string_value(json_object_get(verdict, "own"));
    out->own_conf = text_of(told, "conf");
    out->conf = text_of(verdict, "conf");
    out->is_rmm = json_is_true(json_object_get(told, "is_rmm"));
}

/* Of an allocator the most of all ranks; nothing if one rank has none. */
static json_t *unite_least(const json_t *ranks, const json_t *allocators)
{
    json_t *rows = json_array();
    size_t a;
    json_t *allocator;
    json_array_foreach(allocators, a, allocator)
    {
        json_int_t most = 0;
        bool has_all = true;
        size_t i;
        json_t *rank;
        json_array_foreach(ranks, i, rank)
        {
            json_int_t bytes = json_integer_value(
                json_array_get(json_object_get(rank, "least"), a));
            has_all = has_all && bytes > 0;
            most = bytes > most ? bytes : most;
        }
        json_array_append_new(rows, json_pack("{s:O, s:I}", "allocator", allocator,
                                              "least_memory_bytes", has_all ? most : 0));
    }
    return rows;
}

json_t *bench_job_unit(const char *name, const json_t *ranks, const json_t *allocators)
{
    json_t *unit = json_object();
    const json_t *worst = find_worst(ranks);
    bool is_good = true;
    size_t i;
    json_t *rank;
    json_object_set_new(unit, "name", json_string(name));
    json_array_foreach(ranks, i, rank)
    {
        char text[1536];
        const char *problem = text_of(rank, "problem");
        if (*problem && is_good) {
            snprintf(text, sizeof text, "rank %s: %s", text_of(rank, "name"), problem);
            json_object_set_new(unit, "problem", json_string(text));
        }
        is_good = is_good && !*problem;
    }
    json_object_set_new(unit, "is_good", json_boolean(is_good));
    if (worst) {
        const json_t *verdict = json_object_get(worst, "verdict");
        bench_verdict_input in = { .n_settings = 0 };
        describe_ranks(ranks, worst, &in);
        in.n_devices = list_sizes(verdict, "devices", in.devices);
        in.n_near = list_sizes(verdict, "near", in.near);
        unite_settings(ranks, allocators, &in);
        json_t *united = bench_judge_describe(&in);
        json_object_set_new(united, "work", json_string(name));
        json_object_set_new(unit, "verdict", united);
        json_object_set_new(unit, "results", unite_least(ranks, allocators));
    }
    return unit;
}
