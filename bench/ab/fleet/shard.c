/* shard.c - measures one shard of a fleet.
 *
 * It writes to a file of its own, of which nobody else knows the name. At its start it takes over
 * the whole lines of what its predecessors left; at its end it renames its file and removes theirs.
 * Two processes of one shard cost time, but no result: both make the same file, and the second to
 * end replaces the first one's. */
#include "bench/ab/fleet/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/ab/fleet/shard_file.h"
#include "bench/ab/rounds.h"
#include "bench/base/folder.h"
#include "bench/run/output.h"
#include "vmm/base/clock.h"

#define SAY_NS UINT64_C(30000000000)

typedef struct shard {
    bench_ab_options options;
    bench_rank rank;
    bench_roster roster;
    bench_setup setup;
    json_t *head;
    bench_shard_entry *entries; /* of the folder, at the start */
    unsigned n_entries;
    bool *is_done; /* by unit */
    unsigned n_own;
    unsigned n_done;
    unsigned n_kept; /* of those, taken over */
    unsigned n_bad;  /* of those, with a problem */
    bool is_there;   /* the whole shard was, and nothing is left to do */
    char final_path[4096];
    char path[4096];
    FILE *file; /* at `path` */
    bench_ab_slot *slots;
    unsigned n_slots;
    uint64_t last_ns;
    bench_failure failure;
} shard;

static void path_of(const shard *s, const char *name, char *out, size_t n)
{
    snprintf(out, n, "%s/%s", s->options.out, name);
}

static bool is_own(const shard *s, const bench_shard_entry *entry)
{
    return entry->index == s->rank.index && entry->n == s->rank.n;
}

/* ---- what predecessors left ---- */

static bool put_line(shard *s, const char *text, size_t n)
{
    return (fwrite(text, 1, n, s->file) == n && fflush(s->file) == 0) ||
           bench_fail(&s->failure, "%s: %s", s->path, strerror(errno));
}

/* Works with a problem are tried again. */
static bool take_over(void *context, const bench_shard_line *line)
{
    shard *s = context;
    json_int_t unit = json_integer_value(json_object_get(line->unit, "unit"));
    bool is_ours = unit >= 0 && unit < s->roster.n &&
                   s->roster.works[unit].shard == s->rank.index && !s->is_done[unit] &&
                   json_is_true(json_object_get(line->unit, "is_good"));
    if (!is_ours) {
        return true;
    }
    s->is_done[unit] = put_line(s, line->text, line->n);
    s->n_done += s->is_done[unit];
    s->n_kept += s->is_done[unit];
    return s->is_done[unit];
}

static bool refuse_others(shard *s, const char *path, const json_t *head)
{
    char text[512];
    const char *what = bench_shard_difference(head, s->head, text, sizeof text);
    return !what ||
           bench_fail(&s->failure, "%s: holds another study (%s): name another --out", path, what);
}

static bool visit_nothing(void *context, const bench_shard_line *line)
{
    (void)context;
    (void)line;
    return false;
}

/* False if there is a file of another study. Files without a whole head are worth nothing. */
static bool check_entry(shard *s, const bench_shard_entry *entry)
{
    char path[4096];
    bench_failure none;
    path_of(s, entry->name, path, sizeof path);
    json_t *head = bench_shard_read(path, visit_nothing, NULL, &none);
    bool ok = !head || refuse_others(s, path, head);
    json_decref(head);
    return ok;
}

/* Another number of shards shows in the names; of the others of this number one is looked at. */
static bool check_folder(shard *s)
{
    bool has_seen = false;
    for (unsigned i = 0; i < s->n_entries; i++) {
        const bench_shard_entry *entry = &s->entries[i];
        bool is_other = entry->n == s->rank.n && !is_own(s, entry);
        if ((!is_other || !has_seen) && !check_entry(s, entry)) {
            return false;
        }
        has_seen = has_seen || is_other;
    }
    return true;
}

/* The whole shard first, since it may be all there is to do. */
static bool take_over_all(shard *s)
{
    for (unsigned i = 0; i < 2 * s->n_entries; i++) {
        bool of_parts = i >= s->n_entries;
        const bench_shard_entry *entry = &s->entries[of_parts ? i - s->n_entries : i];
        char path[4096];
        bench_failure none;
        if (!is_own(s, entry) || entry->is_part != of_parts) {
            continue;
        }
        path_of(s, entry->name, path, sizeof path);
        json_decref(bench_shard_read(path, take_over, s, &none));
        s->is_there = s->is_there || (!of_parts && s->n_done == s->n_own);
        if (ferror(s->file)) {
            return false;
        }
    }
    return true;
}

/* ---- its own file ---- */

static bool open_file(shard *s)
{
    char name[BENCH_SHARD_NAME];
    bench_shard_name(s->rank.index, s->rank.n, name);
    path_of(s, name, s->final_path, sizeof s->final_path);
    snprintf(s->path, sizeof s->path, "%s/shard-%05u-of-%05u.XXXXXX.part", s->options.out,
             s->rank.index, s->rank.n);
    int descriptor = mkstemps(s->path, (int)strlen(".part"));
    s->file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!s->file) {
        bench_fail(&s->failure, "%s: %s", s->options.out, strerror(errno));
        s->path[0] = '\0';
        return false;
    }
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor, 0666 & ~mask) != 0) {
        return bench_fail(&s->failure, "%s: %s", s->path, strerror(errno));
    }
    return bench_output_line(json_incref(s->head), s->file) ||
           bench_fail(&s->failure, "%s: %s", s->path, strerror(errno));
}

static void remove_parts(const shard *s)
{
    for (unsigned i = 0; i < s->n_entries; i++) {
        char path[4096];
        if (is_own(s, &s->entries[i]) && s->entries[i].is_part) {
            path_of(s, s->entries[i].name, path, sizeof path);
            unlink(path);
        }
    }
}

/* Another process of this shard that ended before has removed this one's file: then its own, the
 * same, is there. */
static bool finish(shard *s)
{
    bool ok = fflush(s->file) == 0 && fsync(fileno(s->file)) == 0;
    ok = fclose(s->file) == 0 && ok;
    s->file = NULL;
    if (!ok) {
        return bench_fail(&s->failure, "%s: %s", s->path, strerror(errno));
    }
    if (s->is_there) {
        unlink(s->path);
    } else if (rename(s->path, s->final_path) != 0 &&
               (errno != ENOENT || access(s->final_path, F_OK) != 0)) {
        return bench_fail(&s->failure, "%s: %s", s->final_path, strerror(errno));
    }
    remove_parts(s);
    return true;
}

/* ---- works ---- */

static bool put_unit(shard *s, unsigned unit, const bench_ab_plan *plan, const char *problem)
{
    json_t *object = bench_shard_unit(unit, &s->roster.works[unit], s->options.is_rank, plan,
                                      problem);
    if (!json_is_true(json_object_get(object, "is_good"))) {
        s->n_bad++;
        fprintf(stderr, "pleat: %s: %s\n", s->roster.works[unit].name,
                plan ? "a cell could not be measured" : problem);
    }
    return bench_output_line(object, s->file) ||
           bench_fail(&s->failure, "%s: %s", s->path, strerror(errno));
}

static bench_workers_end measure(shard *s, unsigned unit)
{
    static bench_ab_plan plan;
    bench_roster_work *work = &s->roster.works[unit];
    bench_failure why;
    bench_workers_end end = BENCH_WORKERS_DONE;
    bool ok;
    if (bench_ab_plan_one(&plan, &s->options, &s->setup, &work->spec, work->name, &why)) {
        bench_rounds rounds = { .plan = &plan, .slots = s->slots, .n_slots = s->n_slots };
        end = bench_rounds_run(&rounds);
        s->failure = end == BENCH_WORKERS_FAILED ? rounds.failure : s->failure;
        ok = end != BENCH_WORKERS_DONE || put_unit(s, unit, &plan, NULL);
    } else {
        ok = put_unit(s, unit, NULL, why.text);
    }
    bench_ab_plan_fini(&plan);
    return ok ? end : BENCH_WORKERS_FAILED;
}

static void tell(shard *s)
{
    uint64_t now = pl_clock_ns();
    if (now - s->last_ns >= SAY_NS) {
        s->last_ns = now;
        fprintf(stderr, "pleat: shard %u of %u: %u of %u works\n", s->rank.index, s->rank.n,
                s->n_done, s->n_own);
    }
}

static bench_workers_end measure_all(shard *s)
{
    bench_workers_end end = BENCH_WORKERS_DONE;
    s->last_ns = pl_clock_ns();
    for (unsigned i = 0; i < s->roster.n && end == BENCH_WORKERS_DONE; i++) {
        if (s->roster.works[i].shard == s->rank.index && !s->is_done[i]) {
            end = measure(s, i);
            s->n_done += end == BENCH_WORKERS_DONE;
            tell(s);
        }
    }
    return end;
}

/* ---- all of it ---- */

static bool begin(shard *s)
{
    const bench_ab_options *o = &s->options;
    if (!bench_folder_make(o->out, &s->failure)) {
        return false;
    }
    s->head = bench_shard_head(o, &s->setup, &s->roster, &s->rank);
    s->is_done = calloc(s->roster.n, sizeof *s->is_done);
    s->n_slots = o->jobs ? o->jobs : 1;
    s->slots = bench_shared_create(s->n_slots * sizeof *s->slots, &s->failure);
    if (!s->head || !s->is_done || !s->slots) {
        return bench_fail(&s->failure, "out of host memory");
    }
    for (unsigned i = 0; i < s->roster.n; i++) {
        s->n_own += s->roster.works[i].shard == s->rank.index;
    }
    return bench_shard_list(o->out, &s->entries, &s->n_entries, &s->failure) && check_folder(s) &&
           open_file(s) && take_over_all(s);
}

static double processor_seconds(void)
{
    double sum = 0.0;
    for (int i = 0; i < 2; i++) {
        struct rusage used;
        getrusage(i == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &used);
        sum += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    }
    return sum;
}

static bench_workers_end work(shard *s, FILE *say)
{
    char banner[192];
    uint64_t begin_ns = pl_clock_ns();
    double mean = bench_roster_mean(&s->roster, s->rank.n);
    fprintf(say,
            "%s\nshard %u of %u (%s): %u of %u works, %.3f times the mean weight; %u are there\n",
            bench_setup_banner(&s->setup, banner, sizeof banner), s->rank.index, s->rank.n,
            s->rank.source, s->n_own, s->roster.n,
            bench_roster_of(&s->roster, s->rank.index) / mean, s->n_kept);
    fflush(say);
    bench_workers_end end = measure_all(s);
    if (end == BENCH_WORKERS_DONE && !finish(s)) {
        end = BENCH_WORKERS_FAILED;
    }
    if (end == BENCH_WORKERS_DONE) {
        fprintf(say, "shard %u of %u: whole; %u works measured now, %u of all with a problem; ",
                s->rank.index, s->rank.n, s->n_done - s->n_kept, s->n_bad);
        fprintf(say, "%.1f s, of processors %.1f s\nwritten: %s\n",
                (double)(pl_clock_ns() - begin_ns) / 1e9, processor_seconds(), s->final_path);
    } else if (end == BENCH_WORKERS_INTERRUPTED) {
        fprintf(stderr,
                "pleat: interrupted: shard %u of %u has %u of %u works; to go on, run it "
                "again\n",
                s->rank.index, s->rank.n, s->n_done, s->n_own);
    }
    return end;
}

bench_workers_end bench_shard_run(const bench_ab_options *options, const bench_rank *rank,
                                  FILE *say, bool *is_usage)
{
    static shard s;
    s = (shard){ .options = *options, .rank = *rank };
    s.options.is_fleet = true;
    s.options.is_rank = options->is_job; /* the merge reaches the jobs' verdicts */
    s.options.is_job = false;
    const bench_options *common = &options->common;
    bool is_ready = bench_roster_init(&s.roster, common->works, common->n_works, rank->n,
                                      &s.failure) &&
                    bench_workers_setup(&common->target, &s.setup, &s.failure) && begin(&s);
    *is_usage = !is_ready;
    bench_workers_end end = is_ready ? work(&s, say) : BENCH_WORKERS_FAILED;
    if (end == BENCH_WORKERS_FAILED) {
        fprintf(stderr, "pleat: %s\n", s.failure.text);
    }
    if (s.file) {
        fclose(s.file);
    }
    if (!is_ready && s.path[0]) {
        unlink(s.path);
    }
    bench_shared_destroy(s.slots, s.n_slots * sizeof *s.slots);
    json_decref(s.head);
    free(s.entries);
    free(s.is_done);
    bench_roster_fini(&s.roster);
    return end;
}
