/* roster.c - the works of a fleet and how they are shared out among its shards. */
#include "bench/ab/fleet/roster.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/works/files.h"
#include "bench/works/work.h"

/* A file's events are known before it is read only roughly: 100 bytes each in a snapshot, 20 in a
 * line of text, 2 of those when compressed. What starting the runs of a work costs beside its
 * events is worth 3,000 of them (measured: 0.18 s, where 10 allocators take 48 to 81 us an event of
 * the work). docs/fleet.md tells what came of it. */
enum { SNAPSHOT_BYTES = 100, TEXT_BYTES = 20, GZIP_BYTES = 2, START_EVENTS = 3000 };

static double events_of(const char *path, uint64_t bytes)
{
    unsigned char begin[2] = { 0 };
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(begin, 1, sizeof begin, file) : 0;
    if (file) {
        fclose(file);
    }
    bool is_gzip = n == 2 && begin[0] == 0x1f && begin[1] == 0x8b;
    bool is_snapshot = n > 0 && begin[0] != '\0' && strchr("\x80{[(]}P", begin[0]) != NULL;
    return (double)bytes / (is_gzip ? GZIP_BYTES : is_snapshot ? SNAPSHOT_BYTES : TEXT_BYTES);
}

/* `canonical` is what tells that two specs are of the same file. */
static bool measure_file(const char *found, bench_roster_work *work, char *canonical,
                         bench_failure *failure)
{
    bench_file_options options;
    char path[PATH_MAX];
    struct stat st;
    if (!bench_file_split(found, path, sizeof path, &options, failure)) {
        return false;
    }
    if (stat(path, &st) != 0 || !realpath(path, canonical)) {
        return bench_fail(failure, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return bench_fail(failure, "%s: is no regular file", path);
    }
    size_t used = strlen(canonical);
    snprintf(canonical + used, 2 * PATH_MAX - used, "%s", found + strlen(path));
    work->size = (uint64_t)st.st_size;
    work->weight = START_EVENTS + events_of(path, work->size);
    return true;
}

static bool measure(bench_roster_work *work, char **canonical, bench_failure *failure)
{
    char found[PATH_MAX];
    char name[2 * PATH_MAX];
    if (bench_work_find(work->spec, found, sizeof found)) {
        bench_work_name(found, work->name);
        if (!measure_file(found, work, name, failure)) {
            return false;
        }
    } else {
        bench_work opened;
        if (!bench_work_open(work->spec, &opened, failure)) {
            return false;
        }
        snprintf(work->name, sizeof work->name, "%s", opened.name);
        snprintf(name, sizeof name, "%s", work->spec);
        work->size = opened.n_events;
        work->weight = START_EVENTS + (double)opened.n_events;
        bench_work_close(&opened);
    }
    *canonical = strdup(name);
    return *canonical || bench_fail(failure, "out of host memory");
}

/* ---- order, and who is who ---- */

static int by_spec(const void *a, const void *b)
{
    return strcmp(((const bench_roster_work *)a)->spec, ((const bench_roster_work *)b)->spec);
}

typedef struct key {
    const char *text;
    unsigned work;
} key;

static int by_text(const void *a, const void *b)
{
    const key *x = a;
    const key *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : x->work < y->work ? -1 : x->work > y->work;
}

static bool refuse_doubles(const bench_roster *roster, char **canonical, key *keys,
                           bench_failure *failure)
{
    for (unsigned i = 0; i < roster->n; i++) {
        keys[i] = (key){ .text = canonical[i], .work = i };
    }
    qsort(keys, roster->n, sizeof *keys, by_text);
    for (unsigned i = 1; i < roster->n; i++) {
        if (strcmp(keys[i - 1].text, keys[i].text) == 0) {
            return bench_fail(failure, "%.400s: is given twice, as %.400s too",
                              roster->works[keys[i - 1].work].spec,
                              roster->works[keys[i].work].spec);
        }
    }
    return true;
}

/* Works that share a name, such as run1/job.pickle and run2/job.pickle, are called what was typed
 * for them. */
static bool tell_apart(bench_roster *roster, key *keys, bench_failure *failure)
{
    for (unsigned i = 0; i < roster->n; i++) {
        keys[i] = (key){ .text = roster->works[i].name, .work = i };
    }
    qsort(keys, roster->n, sizeof *keys, by_text);
    for (unsigned first = 0, end; first < roster->n; first = end) {
        for (end = first + 1; end < roster->n && strcmp(keys[first].text, keys[end].text) == 0;
             end++) {
        }
        for (unsigned i = end; end - first > 1 && i-- > first;) {
            bench_roster_work *work = &roster->works[keys[i].work];
            bench_text_clean(work->spec, strlen(work->spec), work->name, sizeof work->name);
        }
    }
    for (unsigned i = 0; i < roster->n; i++) {
        keys[i] = (key){ .text = roster->works[i].name, .work = i };
    }
    qsort(keys, roster->n, sizeof *keys, by_text);
    for (unsigned i = 1; i < roster->n; i++) {
        if (strcmp(keys[i - 1].text, keys[i].text) == 0) {
            return bench_fail(failure, "two works cannot be told apart by their names: %s",
                              keys[i].text);
        }
    }
    return true;
}

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        sum = (sum ^ p[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

static void digest(bench_roster *roster)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    for (unsigned i = 0; i < roster->n; i++) {
        const bench_roster_work *work = &roster->works[i];
        sum = hash(sum, work->spec, strlen(work->spec) + 1);
        sum = hash(sum, &work->size, sizeof work->size);
    }
    snprintf(roster->digest, sizeof roster->digest, "%016llx", (unsigned long long)sum);
}

/* ---- sharing (R3) ---- */

typedef struct load {
    double weight;
    unsigned shard;
} load;

static bool is_less(const load *a, const load *b)
{
    return a->weight < b->weight || (a->weight == b->weight && a->shard < b->shard);
}

/* The first of the heap has become heavier. */
static void sink(load *heap, unsigned n)
{
    for (unsigned at = 0, child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && is_less(&heap[child + 1], &heap[child]);
        if (!is_less(&heap[child], &heap[at])) {
            return;
        }
        load moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static const bench_roster_work *shared_works; /* for the comparison; one thread */

static int heaviest_first(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a;
    unsigned y = *(const unsigned *)b;
    double difference = shared_works[y].weight - shared_works[x].weight;
    return difference > 0.0 ? 1 : difference < 0.0 ? -1 : x < y ? -1 : x > y;
}

static bool share(bench_roster *roster, unsigned n_shards)
{
    unsigned *order = calloc(roster->n, sizeof *order);
    load *heap = calloc(n_shards, sizeof *heap);
    bool ok = order && heap;
    for (unsigned i = 0; ok && i < roster->n; i++) {
        order[i] = i;
    }
    for (unsigned i = 0; ok && i < n_shards; i++) {
        heap[i].shard = i;
    }
    if (ok) {
        shared_works = roster->works;
        qsort(order, roster->n, sizeof *order, heaviest_first);
    }
    for (unsigned i = 0; ok && i < roster->n; i++) {
        bench_roster_work *work = &roster->works[order[i]];
        work->shard = heap[0].shard;
        heap[0].weight += work->weight;
        sink(heap, n_shards);
    }
    free(order);
    free(heap);
    return ok;
}

/* ---- all of it ---- */

static bool take_specs(bench_roster *roster, char **specs, unsigned n, bench_failure *failure)
{
    roster->works = calloc(n, sizeof *roster->works);
    if (!roster->works) {
        return bench_fail(failure, "out of host memory");
    }
    for (; roster->n < n; roster->n++) {
        roster->works[roster->n].spec = strdup(specs[roster->n]);
        if (!roster->works[roster->n].spec) {
            return bench_fail(failure, "out of host memory");
        }
    }
    qsort(roster->works, n, sizeof *roster->works, by_spec);
    return true;
}

static bool know_works(bench_roster *roster, char **canonical, key *keys, bench_failure *failure)
{
    for (unsigned i = 0; i < roster->n; i++) {
        if (!measure(&roster->works[i], &canonical[i], failure)) {
            return false;
        }
    }
    return refuse_doubles(roster, canonical, keys, failure) && tell_apart(roster, keys, failure);
}

bool bench_roster_init(bench_roster *roster, char **specs, unsigned n, unsigned n_shards,
                       bench_failure *failure)
{
    *roster = (bench_roster){ .n = 0 };
    if (!take_specs(roster, specs, n, failure)) {
        return false;
    }
    char **canonical = calloc(n, sizeof *canonical);
    key *keys = calloc(n, sizeof *keys);
    bool ok = canonical && keys;
    if (!ok) {
        bench_fail(failure, "out of host memory");
    }
    ok = ok && know_works(roster, canonical, keys, failure);
    if (ok && !share(roster, n_shards)) {
        ok = bench_fail(failure, "out of host memory");
    }
    digest(roster);
    for (unsigned i = 0; canonical && i < n; i++) {
        free(canonical[i]);
    }
    free(canonical);
    free(keys);
    return ok;
}

void bench_roster_fini(bench_roster *roster)
{
    for (unsigned i = 0; i < roster->n; i++) {
        free(roster->works[i].spec);
    }
    free(roster->works);
    *roster = (bench_roster){ .n = 0 };
}

double bench_roster_mean(const bench_roster *roster, unsigned n_shards)
{
    double sum = 0.0;
    for (unsigned i = 0; i < roster->n; i++) {
        sum += roster->works[i].weight;
    }
    return sum / n_shards;
}

double bench_roster_of(const bench_roster *roster, unsigned shard)
{
    double sum = 0.0;
    for (unsigned i = 0; i < roster->n; i++) {
        sum += roster->works[i].shard == shard ? roster->works[i].weight : 0.0;
    }
    return sum;
}

/* ---- patterns ---- */

static bool append(char ***list, unsigned *n, char *spec)
{
    char **longer = realloc(*list, (*n + 1) * sizeof **list);
    if (!longer || !spec) {
        *list = longer ? longer : *list;
        return false;
    }
    *list = longer;
    longer[(*n)++] = spec;
    return true;
}

/* A file of several ranks' snapshots stands for all of them. */
static bool append_ranks(char ***list, unsigned *n, char *spec)
{
    char found[4096];
    bench_rank_name *names = NULL;
    unsigned n_names = 0;
    bench_failure failure;
    bool ok = !bench_work_find(spec, found, sizeof found) ||
              bench_file_ranks(found, &names, &n_names, &failure);
    if (!ok || n_names == 0) {
        free(names);
        return ok && append(list, n, spec);
    }
    const char *sign = strrchr(spec, ':') && strchr(strrchr(spec, ':'), '=') ? "," : ":";
    for (unsigned i = 0; i < n_names && ok; i++) {
        char *of_rank;
        ok = asprintf(&of_rank, "%s%srank=%s", spec, sign, names[i]) >= 0 &&
             append(list, n, of_rank);
    }
    free(names);
    return ok;
}

char **bench_roster_expand(char **specs, unsigned *n)
{
    char **list = NULL;
    unsigned n_found = 0;
    bool ok = true;
    for (unsigned i = 0; i < *n && ok; i++) {
        glob_t found;
        struct stat st;
        bool is_pattern = strpbrk(specs[i], "*?[") && stat(specs[i], &st) != 0;
        if (!is_pattern || glob(specs[i], 0, NULL, &found) != 0) {
            ok = append_ranks(&list, &n_found, specs[i]);
            continue;
        }
        for (size_t k = 0; k < found.gl_pathc && ok; k++) {
            char *path = strdup(found.gl_pathv[k]);
            ok = path && append_ranks(&list, &n_found, path);
        }
        globfree(&found);
    }
    *n = n_found;
    return ok ? list : NULL;
}
