/* shard_file.c - what one process of a fleet writes. */
#include "bench/ab/fleet/shard_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/pleat.h"
#include "bench/ab/fleet/jobs.h"
#include "bench/ab/judge.h"
#include "bench/ab/rows.h"

enum { FORMAT = 1 };
static const char mark[] = "pleat ab"; /* of a head */

void bench_shard_name(unsigned index, unsigned n, char out[BENCH_SHARD_NAME])
{
    snprintf(out, BENCH_SHARD_NAME, "shard-%05u-of-%05u.jsonl", index, n);
}

/* ---- the folder ---- */

static bool parse_name(const char *name, bench_shard_entry *out)
{
    int n_read = 0;
    char usual[BENCH_SHARD_NAME];
    *out = (bench_shard_entry){ .n = 0 };
    if (strlen(name) >= sizeof out->name ||
        sscanf(name, "shard-%5u-of-%5u.%n", &out->index, &out->n, &n_read) != 2 || n_read == 0) {
        return false;
    }
    snprintf(usual, sizeof usual, "shard-%05u-of-%05u.", out->index, out->n); /* signs, blanks */
    if (strncmp(name, usual, strlen(usual)) != 0) {
        return false;
    }
    size_t n = strlen(name);
    memcpy(out->name, name, n + 1);
    bench_shard_name(out->index, out->n, usual);
    out->is_part = n > strlen(".part") && strcmp(name + n - strlen(".part"), ".part") == 0;
    return out->is_part || strcmp(name, usual) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const bench_shard_entry *)a)->name, ((const bench_shard_entry *)b)->name);
}

bool bench_shard_list(const char *folder, bench_shard_entry **out, unsigned *n,
                      bench_failure *failure)
{
    *out = NULL;
    *n = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        return bench_fail(failure, "%s: %s", folder, strerror(errno));
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir)) != NULL;) {
        bench_shard_entry found;
        if (!parse_name(entry->d_name, &found)) {
            continue;
        }
        bench_shard_entry *longer = realloc(*out, (*n + 1) * sizeof **out);
        ok = longer != NULL;
        if (ok) {
            *out = longer;
            longer[(*n)++] = found;
        }
    }
    closedir(dir);
    if (ok && *n > 0) {
        qsort(*out, *n, sizeof **out, by_name);
    }
    return ok || bench_fail(failure, "out of host memory");
}

/* ---- the head ---- */

static void set_text(json_t *object, const char *key, const char *text)
{
    char clean[PL_SIM_CONF_BYTES];
    bench_text_clean(text, strlen(text), clean, sizeof clean);
    json_object_set_new(object, key, json_string(clean));
}

static void set_count(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *settings_of(const bench_ab_options *o, const bench_setup *setup)
{
    json_t *settings = json_object();
    const char *environment = getenv("PLEAT_CONF");
    set_text(settings, "driver", bench_setup_driver(setup));
    set_text(settings, "gpu", setup->gpu);
    set_count(settings, "granule_bytes", setup->granule_bytes);
    set_count(settings, "total_bytes", setup->total_bytes);
    set_text(settings, "conf", o->common.target.conf);
    set_text(settings, "PLEAT_CONF", environment ? environment : "");
    set_text(settings, "sim", setup->sim);
    set_count(settings, "depth", setup->depth);
    json_t *allocators = json_array();
    for (unsigned i = 0; i < o->common.n_allocators; i++) {
        json_array_append_new(allocators, json_string(o->common.allocators[i]));
    }
    json_object_set_new(settings, "allocators", allocators);
    json_t *memories = json_array();
    for (unsigned i = 0; i < o->n_memories; i++) {
        json_array_append_new(memories, json_string(o->memories[i].label));
    }
    json_object_set_new(settings, "memories", memories);
    json_object_set_new(settings, "cards", json_boolean(o->has_cards && bench_setup_is_sim(setup)));
    json_object_set_new(settings, "fit", json_boolean(o->is_fit));
    json_object_set_new(settings, "job", json_boolean(o->is_rank));
    set_count(settings, "loops", o->common.loops);
    set_count(settings, "later_passes", o->later_passes);
    set_count(settings, "repeat", o->repeat);
    return settings;
}

json_t *bench_shard_head(const bench_ab_options *options, const bench_setup *setup,
                         const bench_roster *roster, const bench_rank *rank)
{
    unsigned own = 0;
    for (unsigned i = 0; i < roster->n; i++) {
        own += roster->works[i].shard == rank->index;
    }
    json_t *head = json_object();
    set_text(head, "shard", mark);
    set_count(head, "format", FORMAT);
    set_text(head, "pleat", pleat_version());
    set_count(head, "index", rank->index);
    set_count(head, "of", rank->n);
    set_count(head, "own", own);
    set_count(head, "works", roster->n);
    set_text(head, "digest", roster->digest);
    json_object_set_new(head, "settings", settings_of(options, setup));
    return head;
}

static const char *say(char *out, size_t n, const char *key, const json_t *a, const json_t *b)
{
    char *texts[] = { json_dumps(a, JSON_ENCODE_ANY | JSON_COMPACT),
                      json_dumps(b, JSON_ENCODE_ANY | JSON_COMPACT) };
    snprintf(out, n, "%s: %.150s and %.150s", key, texts[0] ? texts[0] : "none",
             texts[1] ? texts[1] : "none");
    free(texts[0]);
    free(texts[1]);
    return out;
}

const char *bench_shard_difference(const json_t *head, const json_t *other, char *out, size_t n)
{
    static const char *const keys[] = { "format", "pleat", "of" };
    static const char *const words[] = { "formats", "versions of pleat", "numbers of shards" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *a = json_object_get(head, keys[i]);
        const json_t *b = json_object_get(other, keys[i]);
        if (!json_equal(a, b)) {
            return say(out, n, words[i], a, b);
        }
    }
    const char *key;
    json_t *value;
    json_t *settings = json_object_get(head, "settings");
    json_object_foreach(settings, key, value)
    {
        const json_t *theirs = json_object_get(json_object_get(other, "settings"), key);
        if (!json_equal(value, theirs)) {
            return say(out, n, key, value, theirs);
        }
    }
    if (!json_equal(settings, json_object_get(other, "settings"))) {
        snprintf(out, n, "settings: one of them has more");
        return out;
    }
    if (!json_equal(json_object_get(head, "works"), json_object_get(other, "works"))) {
        return say(out, n, "numbers of works", json_object_get(head, "works"),
                   json_object_get(other, "works"));
    }
    if (!json_equal(json_object_get(head, "digest"), json_object_get(other, "digest"))) {
        snprintf(out, n, "the works: other names, or a file has another size");
        return out;
    }
    return NULL;
}

/* ---- a work ---- */

/* As they will stand in results.csv. */
static json_t *csv_of(const bench_ab_plan *plan)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    bool ok = file != NULL;
    for (unsigned i = 0; i < plan->n_replays && ok; i++) {
        ok = bench_rows_write(plan, &plan->cells[i], file);
    }
    ok = file && fclose(file) == 0 && ok;
    json_t *csv = ok ? json_stringn(text, n) : NULL;
    free(text);
    return csv;
}

json_t *bench_shard_unit(unsigned unit, const bench_roster_work *work, bool is_rank,
                         const bench_ab_plan *plan, const char *problem)
{
    json_t *object = json_object();
    set_count(object, "unit", unit);
    set_text(object, "name", work->name);
    if (is_rank) {
        char job[BENCH_NAME_BYTES];
        set_text(object, "job", bench_job_name(work->spec, job, sizeof job));
    }
    if (!plan) {
        char clean[sizeof(bench_failure)];
        bench_text_clean(problem, strlen(problem), clean, sizeof clean);
        json_object_set_new(object, "is_good", json_false());
        json_object_set_new(object, "problem", json_string(clean));
        return object;
    }
    bool is_good = true;
    json_t *rows = json_array();
    for (unsigned i = 0; i < plan->n_cells; i++) {
        is_good = is_good && plan->cells[i].state != BENCH_AB_FAILED;
        if (i < plan->n_replays) {
            json_array_append_new(rows, bench_rows_object(plan, &plan->cells[i]));
        }
    }
    json_object_set_new(object, "is_good", json_boolean(is_good));
    json_object_set_new(object, "csv", csv_of(plan));
    json_object_set_new(object, "results", rows);
    json_object_set_new(object, "verdict", bench_judge_object(plan, 0));
    if (is_rank) {
        json_object_set_new(object, "rank", bench_job_rank(plan));
    }
    return object;
}

/* ---- reading ---- */

static bool is_head(const json_t *object)
{
    const char *text = json_string_value(json_object_get(object, "shard"));
    return text && strcmp(text, mark) == 0 && json_is_integer(json_object_get(object, "index")) &&
           json_is_integer(json_object_get(object, "of")) &&
           json_is_integer(json_object_get(object, "own"));
}

static bool is_unit(const json_t *object)
{
    return json_is_integer(json_object_get(object, "unit")) &&
           json_is_string(json_object_get(object, "name"));
}

json_t *bench_shard_read(const char *path, bool (*visit)(void *context, const bench_shard_line *),
                         void *context, bench_failure *failure)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        bench_fail(failure, "%s: %s", path, strerror(errno));
        return NULL;
    }
    json_t *head = NULL;
    char *text = NULL;
    size_t capacity = 0;
    long at = 0;
    bool goes_on = true;
    for (ssize_t n; goes_on && (n = getline(&text, &capacity, file)) > 0; at += n) {
        json_error_t error;
        json_t *object = text[n - 1] == '\n' ? json_loadb(text, (size_t)n, 0, &error) : NULL;
        goes_on = head ? is_unit(object) : is_head(object);
        if (goes_on && !head) {
            head = json_incref(object);
        } else if (goes_on) {
            bench_shard_line line = { .unit = object, .text = text, .n = (size_t)n, .at = at };
            goes_on = visit(context, &line);
        }
        json_decref(object);
    }
    free(text);
    fclose(file);
    if (!head) {
        bench_fail(failure, "%s: is cut short, or no file of `pleat ab`", path);
    }
    return head;
}
