/* fleet.c - what many jobs come to. */
#include "bench/ab/fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"
#include "bench/base/text.h"

bool bench_fleet_init(bench_fleet *fleet, const json_t *allocators, unsigned n_works)
{
    *fleet = (bench_fleet){ .allocators = allocators, .n_works = n_works };
    fleet->needs = calloc(n_works + 1, sizeof *fleet->needs);
    fleet->advice = json_object();
    fleet->problems = json_array();
    fleet->only_jobs = json_array();
    bool ok = fleet->needs && fleet->advice && fleet->problems && fleet->only_jobs;
    for (unsigned s = 0; s < BENCH_FLEET_SETTINGS && s < json_array_size(allocators); s++) {
        fleet->settings[s].least = calloc(n_works + 1, sizeof *fleet->settings[s].least);
        ok = ok && fleet->settings[s].least;
    }
    return ok;
}

void bench_fleet_fini(bench_fleet *fleet)
{
    for (unsigned s = 0; s < BENCH_FLEET_SETTINGS; s++) {
        free(fleet->settings[s].least);
    }
    free(fleet->needs);
    json_decref(fleet->devices);
    json_decref(fleet->advice);
    json_decref(fleet->problems);
    json_decref(fleet->only_jobs);
    *fleet = (bench_fleet){ .n_works = 0 };
}

static unsigned n_settings(const bench_fleet *fleet)
{
    size_t n = json_array_size(fleet->allocators);
    return n < BENCH_FLEET_SETTINGS ? (unsigned)n : BENCH_FLEET_SETTINGS;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* ---- one work ---- */

/* Labels are the same for all works: the sizes that were asked for, or the cards. A multiple of the
 * need that is among the sizes is not told twice. */
static void take_devices(bench_fleet *fleet, const json_t *verdict)
{
    static const char *const lists[] = { "devices", "near" };
    if (fleet->devices) {
        return;
    }
    fleet->devices = json_array();
    for (int i = 0; i < 2; i++) {
        size_t k;
        json_t *device;
        json_array_foreach(json_object_get(verdict, lists[i]), k, device)
        {
            const json_t *label = json_object_get(device, "label");
            size_t at = 0;
            while (at < json_array_size(fleet->devices) &&
                   !json_equal(json_array_get(fleet->devices, at), label)) {
                at++;
            }
            bool is_new = at == json_array_size(fleet->devices) && at < BENCH_FLEET_DEVICES;
            if (is_new && json_is_string(label)) {
                json_array_append(fleet->devices, (json_t *)label);
            }
        }
        fleet->n_sizes = i == 0 ? (unsigned)json_array_size(fleet->devices) : fleet->n_sizes;
    }
}

/* The outcome of a setting on a device by its label: true, false, or NULL where it is not known.
 * Ratios differ in their order from work to work, so the place is looked up. */
static const json_t *outcome_of(const json_t *verdict, unsigned s, const char *label)
{
    static const char *const lists[] = { "devices", "near" };
    static const char *const outcomes[] = { "on", "near" };
    const json_t *setting = json_array_get(json_object_get(verdict, "settings"), s);
    for (int i = 0; i < 2; i++) {
        size_t k;
        json_t *device;
        json_array_foreach(json_object_get(verdict, lists[i]), k, device)
        {
            if (strcmp(text_of(device, "label"), label) == 0) {
                const json_t *outcome = json_array_get(json_object_get(setting, outcomes[i]), k);
                return json_is_boolean(outcome) ? outcome : NULL;
            }
        }
    }
    return NULL;
}

static void count_device(bench_fleet *fleet, const json_t *verdict, unsigned d)
{
    const char *label = json_string_value(json_array_get(fleet->devices, d));
    unsigned n_good = 0;
    unsigned n_bad = 0;
    unsigned good = 0;
    for (unsigned s = 0; s < n_settings(fleet); s++) {
        const json_t *outcome = outcome_of(verdict, s, label);
        bool completes = json_is_true(outcome);
        fleet->settings[s].completes[d] += completes;
        n_good += completes;
        n_bad += json_is_false(outcome);
        good = completes ? s : good;
    }
    if (n_good == 1 && n_bad > 0 && n_good + n_bad == n_settings(fleet)) {
        fleet->settings[good].only[d]++;
        json_array_append_new(fleet->only_jobs,
                              json_pack("{s:O,s:O,s:s}", "work", json_object_get(verdict, "work"),
                                        "allocator", json_array_get(fleet->allocators, good),
                                        "device", label));
    }
}

/* Index of its smallest device by size; the number of devices if there is none. */
static unsigned device_of(const json_t *verdict, const json_t *setting)
{
    const json_t *devices = json_object_get(verdict, "devices");
    unsigned n = (unsigned)json_array_size(devices);
    const char *label = json_string_value(json_object_get(setting, "device"));
    unsigned i = label ? 0 : n;
    while (i < n && strcmp(text_of(json_array_get(devices, i), "label"), label) != 0) {
        i++;
    }
    return i;
}

static unsigned place_of(const bench_fleet *fleet, const char *label)
{
    unsigned i = 0;
    while (i < fleet->n_sizes &&
           strcmp(json_string_value(json_array_get(fleet->devices, i)), label) != 0) {
        i++;
    }
    return i;
}

/* Measured on every device, and on none it completes: what was not measured is not known. */
static bool is_refused_everywhere(const json_t *setting)
{
    const json_t *on = json_object_get(setting, "on");
    size_t n_refused = 0;
    size_t i;
    json_t *outcome;
    json_array_foreach(on, i, outcome)
    {
        n_refused += json_is_false(outcome);
    }
    return n_refused > 0 && n_refused == json_array_size(on);
}

static void count_setting(bench_fleet *fleet, const json_t *verdict, unsigned s,
                          const json_t *in_force)
{
    bench_fleet_setting *out = &fleet->settings[s];
    const json_t *setting = json_array_get(json_object_get(verdict, "settings"), s);
    double held = number_of(setting, "held_bytes");
    double now = number_of(in_force, "held_bytes");
    out->held_bytes += held;
    out->n_held += held > 0.0;
    if (held > 0.0 && now > 0.0) {
        out->saved_bytes += now - held;
        out->n_compared++;
    }
    const char *label = json_string_value(json_object_get(setting, "device"));
    unsigned at = label ? place_of(fleet, label) : fleet->n_sizes;
    if (at < fleet->n_sizes) {
        out->smallest[at]++;
    } else {
        out->n_nowhere += is_refused_everywhere(setting);
    }
    if (in_force) {
        unsigned mine = device_of(verdict, setting);
        unsigned theirs = device_of(verdict, in_force);
        out->n_smaller += mine < theirs;
        out->n_larger += mine > theirs;
    }
}

/* With --fit each row of an allocator tells its least memory. */
static void take_least(bench_fleet *fleet, const json_t *unit)
{
    size_t i;
    json_t *row;
    unsigned before = BENCH_FLEET_SETTINGS;
    json_array_foreach(json_object_get(unit, "results"), i, row)
    {
        unsigned s = 0;
        while (s < n_settings(fleet) &&
               strcmp(json_string_value(json_array_get(fleet->allocators, s)),
                      text_of(row, "allocator")) != 0) {
            s++;
        }
        double least = number_of(row, "least_memory_bytes");
        if (s != before && s < n_settings(fleet) && least > 0.0 &&
            fleet->settings[s].n_least < fleet->n_works) {
            fleet->settings[s].least[fleet->settings[s].n_least++] = least;
        }
        before = s;
    }
}

static void take_problem(bench_fleet *fleet, const json_t *unit)
{
    const char *problem = text_of(unit, "problem");
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(unit, "results"), i, row)
    {
        problem = *problem ? problem : text_of(row, "problem");
    }
    json_array_append_new(fleet->problems,
                          json_pack("{s:O,s:s}", "work", json_object_get(unit, "name"), "problem",
                                    *problem ? problem : "a search or a card was not measured"));
}

void bench_fleet_add(bench_fleet *fleet, const json_t *unit)
{
    const json_t *verdict = json_object_get(unit, "verdict");
    if (!json_is_true(json_object_get(unit, "is_good"))) {
        take_problem(fleet, unit);
    }
    if (!verdict || fleet->n_seen == fleet->n_works) {
        return;
    }
    fleet->n_seen++;
    fleet->needs[fleet->n_measured++] = number_of(verdict, "need_bytes");
    const json_t *recorded = json_object_get(verdict, "recorded");
    fleet->n_in_part += json_is_false(json_object_get(recorded, "is_whole"));
    const char *advice = text_of(verdict, "verdict");
    json_object_set_new(
        fleet->advice, advice,
        json_integer(json_integer_value(json_object_get(fleet->advice, advice)) + 1));
    take_devices(fleet, verdict);
    for (unsigned d = 0; d < json_array_size(fleet->devices); d++) {
        count_device(fleet, verdict, d);
    }
    const json_t *in_force = NULL;
    const json_t *settings = json_object_get(verdict, "settings");
    for (unsigned s = 0; s < n_settings(fleet) && !in_force; s++) {
        const json_t *setting = json_array_get(settings, s);
        bool is_it = strcmp(text_of(setting, "allocator"), text_of(verdict, "in_force")) == 0;
        in_force = is_it ? setting : NULL;
    }
    for (unsigned s = 0; s < n_settings(fleet); s++) {
        count_setting(fleet, verdict, s, in_force);
    }
    take_least(fleet, unit);
}

/* ---- all of them ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static json_t *bytes(double value)
{
    return json_integer((json_int_t)value);
}

/* Values of jobs that there are: the one that so many jobs do not exceed. Sorts them. */
static json_t *quantiles(double *values, unsigned n)
{
    static const struct {
        const char *key;
        unsigned percent;
    } wanted[] = { { "least", 0 }, { "p10", 10 }, { "p25", 25 },  { "median", 50 },
                   { "p75", 75 },  { "p90", 90 }, { "most", 100 } };
    if (n == 0) {
        return json_null();
    }
    qsort(values, n, sizeof *values, ascending);
    json_t *object = json_object();
    double sum = 0.0;
    for (unsigned i = 0; i < n; i++) {
        sum += values[i];
    }
    json_object_set_new(object, "jobs", json_integer(n));
    json_object_set_new(object, "sum", bytes(sum));
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        unsigned long long rank = ((unsigned long long)wanted[i].percent * n + 99) / 100;
        json_object_set_new(object, wanted[i].key, bytes(values[rank > 0 ? rank - 1 : 0]));
    }
    return object;
}

/* Jobs by the power of two above their need. Of sorted values. */
static json_t *bins(const double *values, unsigned n)
{
    json_t *array = json_array();
    double from = 0.0;
    double to = 1024.0;
    for (unsigned i = 0; i < n; from = to, to *= 2.0) {
        unsigned first = i;
        while (i < n && values[i] <= to) {
            i++;
        }
        if (i > first || json_array_size(array) > 0) {
            json_array_append_new(array, json_pack("{s:I,s:I,s:i}", "above", (json_int_t)from, "to",
                                                   (json_int_t)to, "jobs", (int)(i - first)));
        }
    }
    return array;
}

static json_t *counts(const unsigned *of, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(array, json_integer(of[i]));
    }
    return array;
}

static json_t *setting_object(bench_fleet *fleet, unsigned s)
{
    bench_fleet_setting *setting = &fleet->settings[s];
    size_t n_devices = json_array_size(fleet->devices);
    unsigned n_only = 0;
    for (size_t d = 0; d < n_devices; d++) {
        n_only += setting->only[d];
    }
    json_t *object = json_object();
    json_object_set(object, "allocator", json_array_get(fleet->allocators, s));
    json_object_set_new(object, "n_held", json_integer(setting->n_held));
    json_object_set_new(object, "held_bytes", bytes(setting->held_bytes));
    json_object_set_new(object, "n_compared", json_integer(setting->n_compared));
    json_object_set_new(object, "saved_bytes", bytes(setting->saved_bytes));
    json_object_set_new(object, "n_smaller", json_integer(setting->n_smaller));
    json_object_set_new(object, "n_larger", json_integer(setting->n_larger));
    json_object_set_new(object, "n_nowhere", json_integer(setting->n_nowhere));
    json_object_set_new(object, "smallest", counts(setting->smallest, fleet->n_sizes));
    json_object_set_new(object, "completes", counts(setting->completes, n_devices));
    json_object_set_new(object, "only", counts(setting->only, n_devices));
    json_object_set_new(object, "n_only", json_integer(n_only));
    json_object_set_new(object, "least", quantiles(setting->least, setting->n_least));
    return object;
}

json_t *bench_fleet_object(bench_fleet *fleet, const json_t *head)
{
    const json_t *settings = json_object_get(head, "settings");
    json_t *object = json_object();
    json_object_set_new(object, "fleet", json_integer(fleet->n_works));
    json_object_set_new(object, "measured", json_integer(fleet->n_measured));
    json_object_set_new(object, "in_part", json_integer(fleet->n_in_part));
    json_object_set(object, "pleat", json_object_get(head, "pleat"));
    json_object_set(object, "driver", json_object_get(settings, "driver"));
    json_object_set(object, "gpu", json_object_get(settings, "gpu"));
    json_object_set(object, "advice", fleet->advice);
    json_object_set_new(object, "need", quantiles(fleet->needs, fleet->n_measured));
    json_object_set_new(object, "bins", bins(fleet->needs, fleet->n_measured));
    json_object_set_new(object, "devices",
                        fleet->devices ? json_incref(fleet->devices) : json_array());
    json_object_set_new(object, "n_sizes", json_integer(fleet->n_sizes));
    json_t *array = json_array();
    for (unsigned s = 0; s < n_settings(fleet); s++) {
        json_array_append_new(array, setting_object(fleet, s));
    }
    json_object_set_new(object, "settings", array);
    json_object_set(object, "only_jobs", fleet->only_jobs);
    json_object_set(object, "problems", fleet->problems);
    return object;
}

static const char *size_of(const json_t *object, const char *key, char out[32])
{
    double value = number_of(object, key);
    char size[24];
    bench_size_format((uint64_t)(value < 0.0 ? -value : value), size, sizeof size);
    snprintf(out, 32, "%s%s", value < 0.0 ? "-" : "", size);
    return out;
}

void bench_fleet_print(const json_t *object, FILE *out)
{
    char texts[4][32];
    const json_t *need = json_object_get(object, "need");
    fprintf(out, "%lld jobs, %lld measured", (long long)number_of(object, "fleet"),
            (long long)number_of(object, "measured"));
    if (json_is_object(need)) {
        fprintf(out, "; they need %s to %s, half of them at most %s",
                size_of(need, "least", texts[0]), size_of(need, "most", texts[1]),
                size_of(need, "median", texts[2]));
    }
    if (number_of(object, "in_part") > 0.0) {
        fprintf(
            out,
            "\n%lld were recorded in part: they need at least that, and a device on which a part "
            "completes\nis only not ruled out",
            (long long)number_of(object, "in_part"));
    }
    fprintf(out, "\n\n%-16s %14s %14s %9s %9s %9s %9s\n", "setting", "holds in all", "saves",
            "smaller", "larger", "nowhere", "only this");
    size_t i;
    json_t *setting;
    json_array_foreach(json_object_get(object, "settings"), i, setting)
    {
        fprintf(out, "%-16s %14s %14s %9.0f %9.0f %9.0f %9.0f\n", text_of(setting, "allocator"),
                size_of(setting, "held_bytes", texts[0]), size_of(setting, "saved_bytes", texts[1]),
                number_of(setting, "n_smaller"), number_of(setting, "n_larger"),
                number_of(setting, "n_nowhere"), number_of(setting, "n_only"));
    }
    fputs(
        "\nsaves: less memory held without limit than under each job's setting in force; smaller, "
        "larger:\njobs that it lets run on a smaller device, or only on a larger one; nowhere: on "
        "none; only this:\ntimes (a job on a device) that this setting alone completes\n",
        out);
}
