/* work.c - finds and opens a spec's work, and runs over its events. */
#include "bench/works/work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/config/hint.h"
#include "bench/base/text.h"
#include "bench/works/files.h"
#include "bench/works/registry.h"

/* Without folder and endings. */
void bench_work_name(const char *path, char out[BENCH_NAME_BYTES])
{
    static const char *const endings[] = { ".gz",   ".trace", ".pickle", ".pkl",
                                           ".json", ".pt",    ".csv" };
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t cut = strlen(endings[i]);
        if (n > cut && memcmp(name + n - cut, endings[i], cut) == 0) {
            n -= cut;
        }
    }
    bench_text_clean(name, n, out, BENCH_NAME_BYTES);
}

static void take_counts(bench_work *work, const bench_tape *tape)
{
    work->n_events = tape->n_events;
    work->n_marks = tape->n_marks;
    work->n_slots = tape->n_slots;
    work->n_streams = tape->n_streams;
    work->is_host = tape->is_host;
    work->peak_live_bytes = tape->peak_live_bytes;
    work->peak_event = tape->peak_event;
    work->n_uses = tape->n_uses;
    work->peak_pending_bytes = tape->peak_pending_bytes;
}

static void begin_progress(const bench_work *work, bench_progress *progress)
{
    if (progress) {
        bench_progress_label(progress, 0, "reading %s", work->name);
    }
}

static bool open_file(const char *path, bench_work *work, bench_progress *progress,
                      bench_failure *failure)
{
    bench_tape *tape = &work->tape;
    bench_work_name(path, work->name);
    begin_progress(work, progress);
    bench_tape_init(tape);
    tape->most_held = BENCH_MOST_HELD;
    if (!bench_file_read(path, progress, tape, &work->origin, failure)) {
        bench_tape_fini(tape);
        return false;
    }
    take_counts(work, tape);
    if (!bench_tape_settle(tape)) {
        bench_fail(failure, "%s: %s", path, tape->problem);
        bench_tape_fini(tape);
        bench_origin_fini(&work->origin);
        return false;
    }
    return true;
}

static bool open_generator(const bench_generator *generator, const char *spec, const char *values,
                           bench_progress *progress, bench_work *work, bench_failure *failure)
{
    bench_text_clean(spec, strlen(spec), work->name, sizeof work->name);
    work->generator = generator;
    begin_progress(work, progress);
    if (!bench_values_read(generator, values, &work->values, failure)) {
        return false;
    }
    bench_cursor cursor;
    if (!bench_cursor_open(work, &cursor, failure)) {
        return false;
    }
    const bench_event *entries;
    size_t n;
    do {
        n = bench_cursor_next(&cursor, &entries, failure);
        if (progress) {
            bench_progress_step(progress,
                                (double)cursor.tape.n_marks / (double)work->values.iterations);
        }
    } while (n != 0 && n != SIZE_MAX);
    take_counts(work, &cursor.tape);
    work->is_host = generator->is_host;
    bench_cursor_close(&cursor);
    return n == 0 &&
           (work->n_slots > 0 || bench_fail(failure, "%s: it allocates nothing", work->name));
}

/* List the generators' names, for a message about a mistyped name. */
static void list_generators(char *out, size_t n)
{
    size_t used = 0;
    const bench_generator *generator;
    out[0] = '\0';
    for (unsigned i = 0; (generator = bench_generator_at(i)) != NULL && used < n; i++) {
        used += (size_t)snprintf(out + used, n - used, "%s%s", i ? ", " : "", generator->name);
    }
}

/* A folder with the name of a generator does not hide the generator. `values` is the end of `path`,
 * if the file does not exist. */
static bool is_folder(const char *path, const char *values)
{
    struct stat st;
    if (stat(path, &st) == 0) {
        return S_ISDIR(st.st_mode);
    }
    char name[4096];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(path) - strlen(values)), path);
    return stat(name, &st) == 0 && S_ISDIR(st.st_mode);
}

bool bench_work_find(const char *spec, char *found, size_t n)
{
    size_t n_name = strcspn(spec, ":");
    bool is_file = spec[0] != '\0' && bench_file_find(spec, found, n);
    return is_file && !(bench_generator_find(spec, n_name) && is_folder(found, spec + n_name));
}

static void offer_bundled(pl_nearest *nearest)
{
    char folder[2048];
    struct dirent **entries;
    unsigned n = bench_file_bundled(folder, sizeof folder, &entries);
    for (unsigned i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        pl_nearest_offer(nearest, (pl_span){ name, strcspn(name, ".") });
        free(entries[i]);
    }
    free(entries);
}

/* Offer the files in the folder of the missing file. */
static void offer_files(const char *path, size_t n_folder, pl_nearest *nearest)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", n_folder ? (int)n_folder : 1, n_folder ? path : ".");
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        char clean[sizeof entry->d_name];
        bench_text_clean(entry->d_name, strlen(entry->d_name), clean, sizeof clean);
        if (strcmp(clean, entry->d_name) == 0) { /* a name that cannot be shown cannot be typed */
            pl_nearest_offer(nearest, (pl_span){ clean, strlen(clean) });
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* Guess the work that a wrong spec means. */
static const char *nearest_work(const char *spec, const char *none, char hint[PL_HINT_BYTES])
{
    const char *slash = strrchr(spec, '/');
    const char *name = slash ? slash + 1 : spec;
    pl_nearest nearest;
    pl_nearest_init(&nearest, (pl_span){ name, strcspn(name, ":") });
    const bench_generator *generator;
    for (unsigned i = 0; !slash && (generator = bench_generator_at(i)) != NULL; i++) {
        pl_nearest_offer(&nearest, (pl_span){ generator->name, strlen(generator->name) });
    }
    if (!slash) {
        offer_bundled(&nearest);
    }
    offer_files(spec, slash ? (size_t)(name - spec) : 0, &nearest);
    return pl_nearest_say(&nearest, none, hint);
}

static bool refuse(const char *spec, bench_failure *failure)
{
    char known[320];
    char hint[PL_HINT_BYTES];
    list_generators(known, sizeof known);
    return bench_fail(failure,
                      "%.96s: no such file, bundled trace, pattern or generator%s patterns and "
                      "generators: %s",
                      spec[0] != '\0' ? spec : "''", nearest_work(spec, ";", hint), known);
}

bool bench_work_open_showing(const char *spec, bench_progress *progress, bench_work *out,
                             bench_failure *failure)
{
    bench_work work = { .n_slots = 0 };
    char path[4096];
    bool ok;
    size_t n_name = strcspn(spec, ":");
    const bench_generator *generator = bench_generator_find(spec, n_name);
    if (bench_work_find(spec, path, sizeof path)) {
        ok = open_file(path, &work, progress, failure);
        if (!ok && !strchr(spec, ':') && access(spec, F_OK) != 0 && strchr(spec, '/')) {
            char hint[PL_HINT_BYTES];
            size_t used = strlen(failure->text);
            snprintf(failure->text + used, sizeof failure->text - used, "%s",
                     nearest_work(spec, "", hint));
        }
    } else if (generator) {
        const char *values = spec + n_name + (spec[n_name] == ':');
        ok = open_generator(generator, spec, values, progress, &work, failure);
    } else {
        ok = refuse(spec, failure);
    }
    if (progress) {
        bench_progress_clear(progress);
    }
    if (ok) {
        *out = work;
    }
    return ok;
}

bool bench_work_open(const char *spec, bench_work *out, bench_failure *failure)
{
    return bench_work_open_showing(spec, NULL, out, failure);
}

bool bench_work_open_device(const char *spec, bench_progress *progress, bench_work *out,
                            bench_failure *failure)
{
    if (!bench_work_open_showing(spec, progress, out, failure)) {
        return false;
    }
    if (out->is_host) {
        bench_fail(failure,
                   "%s: its blocks are pinned memory of the host, which replay, fit and ab take",
                   out->name);
        bench_work_close(out);
        return false;
    }
    return true;
}

void bench_work_close(bench_work *work)
{
    bench_tape_fini(&work->tape);
    bench_origin_fini(&work->origin);
    *work = (bench_work){ .n_slots = 0 };
}

bool bench_cursor_open(const bench_work *work, bench_cursor *out, bench_failure *failure)
{
    *out = (bench_cursor){ .work = work };
    bench_tape_init(&out->tape);
    if (work->generator) {
        out->state = work->generator->create(&work->values, failure);
        return out->state != NULL;
    }
    if (work->tape.spill) {
        out->reader = bench_spill_open(work->tape.spill);
        return out->reader || bench_fail(failure, "%s: out of host memory", work->name);
    }
    return true;
}

void bench_cursor_close(bench_cursor *cursor)
{
    if (cursor->state) {
        cursor->work->generator->destroy(cursor->state);
    }
    bench_spill_close(cursor->reader);
    bench_tape_fini(&cursor->tape);
    *cursor = (bench_cursor){ .work = NULL };
}

static size_t next_of_file(bench_cursor *cursor, const bench_event **entries,
                           bench_failure *failure)
{
    const bench_work *work = cursor->work;
    if (cursor->reader) {
        const char *problem;
        size_t n = bench_spill_next(cursor->reader, entries, &problem);
        if (n == SIZE_MAX) {
            bench_fail(failure, "%s: %s", work->name, problem);
        }
        return n;
    }
    *entries = work->tape.entries;
    bool was_over = cursor->is_over;
    cursor->is_over = true;
    return was_over ? 0 : work->tape.n_entries;
}

size_t bench_cursor_next(bench_cursor *cursor, const bench_event **entries, bench_failure *failure)
{
    const bench_work *work = cursor->work;
    if (!work->generator) {
        return next_of_file(cursor, entries, failure);
    }
    bench_tape *tape = &cursor->tape;
    uint64_t number = tape->n_marks;
    if (number == work->values.iterations) {
        return 0;
    }
    bench_tape_rewind(tape);
    if (!bench_tape_mark(tape, number) || !work->generator->write(cursor->state, number, tape)) {
        bench_fail(failure, "%s: iteration %llu: %s", work->name, (unsigned long long)number,
                   tape->problem);
        return SIZE_MAX;
    }
    *entries = tape->entries;
    return tape->n_entries;
}
