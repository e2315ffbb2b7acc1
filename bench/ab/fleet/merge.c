/* merge.c - makes the rows, verdicts and page of a fleet from the files of its shards.
 *
 * First all shards are read to know where the line of each work is. Then the files are written one
 * after another, in the order of the works, with one line in memory at a time. */
#include "bench/ab/fleet/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ab/fleet/fleet.h"
#include "bench/ab/fleet/jobs.h"
#include "bench/ab/fleet/shard_file.h"
#include "bench/ab/rows.h"
#include "bench/ab/study.h"

enum { MOST_NAMED = 12 };

typedef struct place {
    unsigned entry; /* 1 + index; 0 = no line yet */
    long at;
    size_t n;
} place;

typedef struct merge {
    const char *folder;
    bench_shard_entry *entries; /* whole shards only, after list_shards */
    unsigned n_entries;
    json_t *head; /* of the first */
    unsigned n_works;
    place *places;
    unsigned reading; /* entry */
    unsigned n_lines; /* of it */
    bench_fleet fleet;
    json_t *jobs;     /* of ranks; NULL = each work is a job */
    json_t *verdicts; /* of jobs of ranks */
    json_t *names;
    json_t *fleet_object;
    bench_failure *failure;
} merge;

static void path_of(const merge *m, unsigned entry, char *out, size_t n)
{
    snprintf(out, n, "%s/%s", m->folder, m->entries[entry].name);
}

/* ---- which shards ---- */

/* "3, 7, 8 and 12 more", of the shards of which `has` is false. */
static void name_missing(const bool *has, unsigned n, char *out, size_t n_out)
{
    unsigned n_missing = 0;
    size_t used = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        n_missing += !has[i];
        if (!has[i] && n_missing <= MOST_NAMED) {
            used += (size_t)snprintf(out + used, n_out - used, "%s%u", used ? ", " : "", i);
        }
    }
    if (n_missing > MOST_NAMED) {
        snprintf(out + used, n_out - used, " and %u more", n_missing - MOST_NAMED);
    }
}

static bool check_missing(const merge *m, const bool *has, const bool *is_begun)
{
    unsigned n = m->entries[0].n;
    for (unsigned i = 0; i < m->n_entries; i++) { /* what a killed process began may be of others */
        if (!m->entries[i].is_part) {
            n = m->entries[i].n;
            break;
        }
    }
    unsigned n_missing = 0;
    unsigned n_begun = 0;
    for (unsigned i = 0; i < n; i++) {
        n_missing += !has[i];
        n_begun += !has[i] && is_begun[i];
    }
    if (n_missing == 0) {
        return true;
    }
    char names[320];
    name_missing(has, n, names, sizeof names);
    return bench_fail(m->failure,
                      "%s: %u of %u shards are missing: %s (%u of them begun): run them, then "
                      "merge",
                      m->folder, n_missing, n, names, n_begun);
}

/* Keeps the whole ones. All names must be of one number of shards. */
static bool list_shards(merge *m)
{
    if (!bench_shard_list(m->folder, &m->entries, &m->n_entries, m->failure)) {
        return false;
    }
    if (m->n_entries == 0) {
        return bench_fail(
            m->failure,
            "%s: there are no shards (shard-00000-of-...): run `pleat ab WORK... --shard "
            "K/N --out %s` first",
            m->folder, m->folder);
    }
    unsigned n = m->entries[0].n;
    bool *has = calloc(2 * (size_t)n + 2, sizeof *has);
    bool *is_begun = has + n + 1;
    if (!has) {
        return bench_fail(m->failure, "out of host memory");
    }
    bool ok = true;
    unsigned n_whole = 0;
    for (unsigned i = 0; ok && i < m->n_entries; i++) {
        bench_shard_entry *entry = &m->entries[i];
        if (entry->is_part && entry->n != n) {
            continue;
        }
        ok = entry->n == n && entry->index < n;
        if (!ok) {
            bench_fail(m->failure, "%s: %s and %s are of different numbers of shards", m->folder,
                       m->entries[0].name, entry->name);
        } else if (entry->is_part) {
            is_begun[entry->index] = true;
        } else {
            has[entry->index] = true;
            m->entries[n_whole++] = *entry;
        }
    }
    ok = ok && check_missing(m, has, is_begun);
    m->n_entries = n_whole;
    free(has);
    return ok;
}

/* ---- where each work's line is ---- */

static bool take_line(void *context, const bench_shard_line *line)
{
    merge *m = context;
    json_int_t unit = json_integer_value(json_object_get(line->unit, "unit"));
    const char *name = json_string_value(json_object_get(line->unit, "name"));
    if (unit < 0 || unit >= m->n_works) {
        return bench_fail(m->failure, "%s/%s: there is no work %lld (%s)", m->folder,
                          m->entries[m->reading].name, (long long)unit, name);
    }
    place *p = &m->places[unit];
    if (p->entry == m->reading + 1) {
        return true; /* twice in one file: a rerun took the first for a killed process's line */
    }
    if (p->entry) {
        return bench_fail(m->failure, "%s: the work %s is in %s and in %s", m->folder, name,
                          m->entries[p->entry - 1].name, m->entries[m->reading].name);
    }
    m->n_lines++;
    *p = (place){ .entry = m->reading + 1, .at = line->at, .n = line->n };
    return true;
}

/* The first head tells how many works there are, before the first line is taken. */
static bool take_first_line(void *context, const bench_shard_line *line)
{
    (void)context;
    (void)line;
    return false;
}

static bool are_texts(const json_t *array)
{
    bool ok = json_is_array(array);
    for (size_t i = 0; ok && i < json_array_size(array); i++) {
        ok = json_is_string(json_array_get(array, i));
    }
    return ok;
}

static bool begin(merge *m)
{
    char path[4096];
    path_of(m, 0, path, sizeof path);
    m->head = bench_shard_read(path, take_first_line, NULL, m->failure);
    if (!m->head) {
        return false;
    }
    json_int_t n = json_integer_value(json_object_get(m->head, "works"));
    const json_t *settings = json_object_get(m->head, "settings");
    if (n <= 0 || n > INT32_MAX || !are_texts(json_object_get(settings, "allocators"))) {
        return bench_fail(m->failure, "%s: has a damaged head", path);
    }
    m->n_works = (unsigned)n;
    m->places = calloc(m->n_works, sizeof *m->places);
    m->names = json_array();
    m->jobs = json_is_true(json_object_get(settings, "job")) ? bench_jobs_create() : NULL;
    return (m->places && m->names &&
            bench_fleet_init(&m->fleet, json_object_get(settings, "allocators"), m->n_works)) ||
           bench_fail(m->failure, "out of host memory");
}

/* *is_whole: all its works are there. */
static bool read_shard(merge *m, bool *is_whole)
{
    char path[4096];
    char text[512];
    path_of(m, m->reading, path, sizeof path);
    m->failure->text[0] = '\0';
    m->n_lines = 0;
    json_t *head = bench_shard_read(path, take_line, m, m->failure);
    if (!head) {
        return false;
    }
    const char *what = bench_shard_difference(m->head, head, text, sizeof text);
    json_int_t index = json_integer_value(json_object_get(head, "index"));
    if (what) {
        bench_fail(m->failure, "%s: %s and %s are of different studies: %s", m->folder,
                   m->entries[0].name, m->entries[m->reading].name, what);
    } else if (index != m->entries[m->reading].index) {
        bench_fail(m->failure, "%s: is shard %lld by its content", path, (long long)index);
    }
    *is_whole = m->n_lines == (unsigned)json_integer_value(json_object_get(head, "own"));
    json_decref(head);
    return m->failure->text[0] == '\0';
}

static bool read_all(merge *m)
{
    bool *is_whole = calloc(m->entries[0].n, sizeof *is_whole);
    if (!is_whole) {
        return bench_fail(m->failure, "out of host memory");
    }
    bool ok = true;
    unsigned n_cut = 0;
    for (m->reading = 0; ok && m->reading < m->n_entries; m->reading++) {
        unsigned index = m->entries[m->reading].index;
        ok = read_shard(m, &is_whole[index]);
        n_cut += ok && !is_whole[index];
    }
    if (ok && n_cut > 0) {
        char names[320];
        name_missing(is_whole, m->entries[0].n, names, sizeof names);
        ok = bench_fail(m->failure,
                        "%s: %u shards are cut or damaged: %s: run them again, then merge",
                        m->folder, n_cut, names);
    }
    for (unsigned i = 0; ok && i < m->n_works; i++) {
        ok = m->places[i].entry || bench_fail(m->failure, "%s: no shard has work %u", m->folder, i);
    }
    free(is_whole);
    return ok;
}

/* ---- the files ---- */

static json_t *read_unit(const merge *m, unsigned unit)
{
    const place *p = &m->places[unit];
    char path[4096];
    path_of(m, p->entry - 1, path, sizeof path);
    FILE *file = fopen(path, "r");
    char *text = malloc(p->n);
    bool ok = file && text && fseek(file, p->at, SEEK_SET) == 0 &&
              fread(text, 1, p->n, file) == p->n;
    json_error_t error;
    json_t *object = ok ? json_loadb(text, p->n, 0, &error) : NULL;
    free(text);
    if (file) {
        fclose(file);
    }
    return object;
}

/* What bench_rows_head tells of a study; nothing that differs from run to run. */
static json_t *study_head(merge *m)
{
    const json_t *settings = json_object_get(m->head, "settings");
    size_t n_memories = json_array_size(json_object_get(settings, "memories"));
    size_t n_cells = m->n_works * n_memories * json_array_size(m->fleet.allocators);
    json_t *head = json_object();
    json_object_set(head, "pleat", json_object_get(m->head, "pleat"));
    json_object_set(head, "driver", json_object_get(settings, "driver"));
    json_object_set(head, "gpu", json_object_get(settings, "gpu"));
    json_object_set(head, "granule_bytes", json_object_get(settings, "granule_bytes"));
    json_object_set(head, "allocators", json_object_get(settings, "allocators"));
    json_object_set(head, "works", m->names);
    json_object_set(head, "memories", json_object_get(settings, "memories"));
    json_object_set_new(head, "cells", json_integer((json_int_t)n_cells));
    json_object_set_new(head, "is_interrupted", json_false());
    return head;
}

static bool add_results(const json_t *unit, FILE *file)
{
    size_t i;
    json_t *row;
    bool ok = true;
    json_array_foreach(json_object_get(unit, "results"), i, row)
    {
        ok = ok && bench_output_line(json_incref(row), file);
    }
    return ok;
}

static bool add_unit(merge *m, int which, json_t *unit, FILE *file)
{
    const json_t *csv = json_object_get(unit, "csv");
    json_t *verdict = json_object_get(unit, "verdict");
    switch (which) {
    case BENCH_STUDY_CSV:
        if (m->jobs) {
            bench_jobs_add(m->jobs, unit, m->fleet.allocators);
        } else {
            bench_fleet_add(&m->fleet, unit);
        }
        json_array_append(m->names, json_object_get(unit, "name"));
        return !csv || fwrite(json_string_value(csv), 1, json_string_length(csv), file) ==
                           json_string_length(csv);
    case BENCH_STUDY_JSON:
        return add_results(unit, file);
    default:
        return !verdict || m->jobs || bench_output_line(json_incref(verdict), file);
    }
}

/* All ranks are known: reach the jobs' verdicts. */
static bool judge_jobs(merge *m)
{
    const char *name;
    json_t *ranks;
    m->verdicts = json_array();
    m->fleet.n_works = (unsigned)json_object_size(m->jobs);
    json_object_foreach(m->jobs, name, ranks)
    {
        json_t *unit = bench_job_unit(name, ranks, m->fleet.allocators);
        bench_fleet_add(&m->fleet, unit);
        if (json_object_get(unit, "verdict")) {
            json_array_append(m->verdicts, json_object_get(unit, "verdict"));
        }
        json_decref(unit);
    }
    return m->verdicts != NULL;
}

static bool write_jobs(merge *m, int which, FILE *file)
{
    size_t i;
    json_t *verdict;
    bool ok = true;
    if (which == BENCH_STUDY_CSV) {
        return judge_jobs(m);
    }
    json_array_foreach(m->verdicts, i, verdict)
    {
        ok = ok && (which != BENCH_STUDY_VERDICTS || bench_output_line(json_incref(verdict), file));
    }
    return ok;
}

static bool write_file(void *context, int which, FILE *file)
{
    merge *m = context;
    static const bench_ab_plan standard; /* for the heading: no times of the host */
    if (which == BENCH_STUDY_FLEET) {
        m->fleet_object = bench_fleet_object(&m->fleet, m->head);
        return bench_output_line(json_incref(m->fleet_object), file);
    }
    if (which == BENCH_STUDY_TIMELINES) {
        return bench_output_line(study_head(m), file);
    }
    if (which == BENCH_STUDY_MOMENTS) {
        return true;
    }
    bool ok = which != BENCH_STUDY_CSV || bench_rows_heading(&standard, file);
    for (unsigned i = 0; i < m->n_works && ok; i++) {
        json_t *unit = read_unit(m, i);
        ok = unit && add_unit(m, which, unit, file);
        json_decref(unit);
    }
    ok = ok && (!m->jobs || write_jobs(m, which, file));
    return ok && fflush(file) == 0 && !ferror(file);
}

static bool run(merge *m, const char *out)
{
    if (!list_shards(m) || !begin(m)) {
        return false;
    }
    if (!read_all(m) || !bench_study_check(out, m->failure)) {
        return false;
    }
    bench_study_forget(out);
    bool ok = true;
    for (int i = 0; i <= BENCH_STUDY_FLEET && ok; i++) {
        ok = bench_study_put(out, i, write_file, m, m->failure);
    }
    return ok;
}

bool bench_merge(const char *folder, const char *out, bool is_json, bench_merged *merged,
                 bench_failure *failure)
{
    merge m = { .folder = folder, .failure = failure };
    bool ok = run(&m, out);
    if (ok) {
        merged->n_works = m.fleet.n_works;
        merged->n_problems = (unsigned)json_array_size(m.fleet.problems);
        if (is_json) {
            bench_output_line(json_incref(m.fleet_object), stdout);
        } else {
            bench_fleet_print(m.fleet_object, stdout);
        }
    }
    json_decref(m.fleet_object);
    bench_fleet_fini(&m.fleet);
    json_decref(m.jobs);
    json_decref(m.verdicts);
    json_decref(m.names);
    json_decref(m.head);
    free(m.entries);
    free(m.places);
    return ok;
}
