/* study.c - the folder that `pleat ab` writes. */
#include "bench/ab/study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/replace.h"
#include "bench/ab/blocks.h"
#include "bench/ab/compacted.h"
#include "bench/ab/judge.h"
#include "bench/ab/rows.h"
#include "bench/ab/state_lines.h"
#include "bench/base/folder.h"

enum { HEAD_BYTES = 4096 };

/* The first bytes of our files, by which they are recognised. */
static const struct {
    const char *name;
    const char *head;
} files[] = {
    [BENCH_STUDY_CSV] = { "results.csv", "work,allocator,driver,memory," },
    [BENCH_STUDY_JSON] = { "results.jsonl", "{\"trace\":" },
    [BENCH_STUDY_TIMELINES] = { "timelines.jsonl", "{\"pleat\":" },
    [BENCH_STUDY_MOMENTS] = { "moments.jsonl", "{\"moment\":" },
    [BENCH_STUDY_VERDICTS] = { "verdicts.jsonl", "{\"verdict\":" },
    [BENCH_STUDY_FLEET] = { "fleet.json", "{\"fleet\":" },
    [BENCH_STUDY_BLOCKS] = { "blocks.jsonl", "{\"blocks\":" },
};
/* The page names its author in its head (bench/report/report.html.j2). */
static const char *const pages[] = { "report.html", "closer.html", "blocks.html" };
enum { N_PAGES = sizeof pages / sizeof pages[0] };
static const char report_mark[] = "<meta name=\"generator\" content=\"pleat ab\">";

static void path_of(const char *folder, const char *name, char *out, size_t n)
{
    snprintf(out, n, "%s/%s", folder, name);
}

/* A missing or empty file may be written. `head` NULL: look for the report's mark. */
static bool may_replace(const char *path, const char *head, bench_failure *failure)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return bench_fail(failure, "%s: is there and is no regular file", path);
    }
    FILE *file = fopen(path, "r"); /* a pipe would wait for a writer for ever */
    if (!file) {
        return errno == ENOENT || bench_fail(failure, "%s: %s", path, strerror(errno));
    }
    char begin[HEAD_BYTES];
    size_t n = fread(begin, 1, sizeof begin - 1, file);
    bool is_read = !ferror(file);
    fclose(file);
    begin[n] = '\0';
    bool is_ours = head ? strncmp(begin, head, strlen(head)) == 0
                        : strstr(begin, report_mark) != NULL;
    return (is_read && (n == 0 || is_ours)) ||
           bench_fail(failure,
                      "%s: is there and is no file of `pleat ab`: name another folder "
                      "with --out",
                      path);
}

bool bench_study_check(const char *folder, bench_failure *failure)
{
    char path[4096];
    bench_failure reason;
    bool ok = bench_folder_make(folder, &reason) || bench_fail(failure, "--out: %s", reason.text);
    for (int i = 0; i < BENCH_STUDY_N_NAMES && ok; i++) {
        path_of(folder, files[i].name, path, sizeof path);
        ok = may_replace(path, files[i].head, failure);
    }
    for (int i = 0; i < N_PAGES && ok; i++) {
        path_of(folder, pages[i], path, sizeof path);
        ok = may_replace(path, NULL, failure);
    }
    return ok;
}

static void close_all(bench_study *study)
{
    for (int i = 0; i < BENCH_STUDY_N_FILES; i++) {
        if (study->files[i]) {
            fclose(study->files[i]);
            study->files[i] = NULL;
        }
    }
}

static bool begin_file(const bench_study *study, int which, FILE *file, bool is_interrupted)
{
    if (which == BENCH_STUDY_CSV) {
        return bench_rows_heading(study->plan, file);
    }
    return which != BENCH_STUDY_TIMELINES ||
           bench_output_line(bench_rows_head(study->plan, is_interrupted), file);
}

static bool add_line(const bench_study *study, int which, const bench_ab_cell *cell, FILE *file)
{
    bool is_replay = cell->kind == BENCH_AB_REPLAY;
    bool has_line = cell->line && is_replay == (which == BENCH_STUDY_TIMELINES);
    switch (which) {
    case BENCH_STUDY_CSV:
        return !is_replay || bench_rows_write(study->plan, cell, file);
    case BENCH_STUDY_JSON:
        return !is_replay || bench_output_line(bench_rows_object(study->plan, cell), file);
    case BENCH_STUDY_VERDICTS:
        return true; /* they are of all cells together */
    default:
        return !has_line || (fputs(cell->line, file) != EOF && fflush(file) == 0);
    }
}

/* A cell's line, and that of pleat with short:compact. */
static bool add_row(const bench_study *study, int which, const bench_ab_cell *cell, FILE *file)
{
    bench_ab_cell beside;
    bool is_row = which == BENCH_STUDY_CSV || which == BENCH_STUDY_JSON;
    return add_line(study, which, cell, file) &&
           (!is_row || !bench_compacted_row(study->plan, cell, &beside) ||
            add_line(study, which, &beside, file));
}

void bench_study_forget(const char *folder)
{
    char path[4096];
    for (int i = 0; i < N_PAGES; i++) {
        path_of(folder, pages[i], path, sizeof path);
        unlink(path);
    }
    for (int i = BENCH_STUDY_FLEET; i < BENCH_STUDY_N_NAMES; i++) {
        path_of(folder, files[i].name, path, sizeof path);
        unlink(path);
    }
}

bool bench_study_open(bench_study *study, const bench_ab_plan *plan, bench_failure *failure)
{
    const char *folder = plan->options.out;
    *study = (bench_study){ .plan = plan };
    if (!bench_study_check(folder, failure)) {
        return false;
    }
    bench_study_forget(folder);
    char path[4096];
    for (int i = 0; i < BENCH_STUDY_N_FILES; i++) {
        path_of(folder, files[i].name, path, sizeof path);
        study->files[i] = fopen(path, "w");
        if (!study->files[i] || !begin_file(study, i, study->files[i], true)) {
            bench_fail(failure, "%s: %s", path, strerror(errno));
            close_all(study);
            return false;
        }
    }
    return true;
}

static bool say_unwritable(const char *folder, int which, bench_failure *failure)
{
    return bench_fail(failure, "%s/%s cannot be written: %s", folder, files[which].name,
                      strerror(errno));
}

bool bench_study_add(bench_study *study, const bench_ab_cell *cell, bench_failure *failure)
{
    for (int i = 0; i < BENCH_STUDY_N_FILES; i++) {
        if (!add_row(study, i, cell, study->files[i])) {
            return say_unwritable(study->plan->options.out, i, failure);
        }
    }
    return true;
}

typedef struct blocks_writing {
    const bench_ab_plan *plan;
    bench_failure failure;
} blocks_writing;

typedef struct again {
    const bench_study *study;
    bool is_interrupted;
} again;

static bool write_again(void *context, int which, FILE *file)
{
    const again *a = context;
    const bench_ab_plan *plan = a->study->plan;
    bool ok = begin_file(a->study, which, file, a->is_interrupted);
    for (unsigned i = 0; i < plan->n_cells && ok; i++) {
        const bench_ab_cell *cell = &plan->cells[i];
        ok = cell->state == BENCH_AB_WAITING || add_row(a->study, which, cell, file);
    }
    unsigned n_works = plan->options.is_fleet ? 0 : plan->options.common.n_works;
    for (unsigned w = 0; which == BENCH_STUDY_MOMENTS && w < n_works && ok; w++) {
        ok = bench_state_row(&plan->works[w], file);
    }
    unsigned n_verdicts = which == BENCH_STUDY_VERDICTS ? bench_judge_count(plan) : 0;
    for (unsigned i = 0; i < n_verdicts && ok; i++) {
        ok = bench_output_line(bench_judge_object(plan, i), file);
    }
    return ok;
}

/* The data are complete at any time. */
static bool replace(const char *path, int which, bench_study_writer *write, void *context)
{
    pl_replace output;
    int error = pl_replace_open(&output, path);
    if (error) {
        errno = error;
        return false;
    }
    FILE *file = fdopen(output.descriptor, "w");
    if (!file) {
        close(output.descriptor);
    }
    bool ok = file && write(context, which, file);
    ok = file && fclose(file) == 0 && ok;
    error = pl_replace_end(&output, ok);
    errno = error ? error : errno;
    return ok && !error;
}

bool bench_study_put(const char *folder, int which, bench_study_writer *write, void *context,
                     bench_failure *failure)
{
    char path[4096];
    path_of(folder, files[which].name, path, sizeof path);
    return replace(path, which, write, context) || say_unwritable(folder, which, failure);
}

/* The works' own blocks, whatever was measured. `context` has the failure to fill. */
static bool write_blocks(void *context, int which, FILE *file)
{
    (void)which;
    blocks_writing *b = context;
    unsigned n_works = b->plan->options.common.n_works;
    bool ok = true;
    for (unsigned w = 0; w < n_works && ok; w++) {
        ok = bench_blocks_write(&b->plan->works[w], BENCH_BLOCKS_MOST / n_works, file, &b->failure);
    }
    return ok;
}

static bool put_blocks(const bench_study *study, bench_failure *failure)
{
    blocks_writing b = { .plan = study->plan };
    bool ok = bench_study_put(study->plan->options.out, BENCH_STUDY_BLOCKS, write_blocks, &b,
                              failure);
    if (!ok && b.failure.text[0]) {
        *failure = b.failure;
    }
    return ok;
}

bool bench_study_finish(bench_study *study, bool is_interrupted, bench_failure *failure)
{
    close_all(study);
    again a = { .study = study, .is_interrupted = is_interrupted };
    for (int i = 0; i < BENCH_STUDY_N_FILES; i++) {
        if (!bench_study_put(study->plan->options.out, i, write_again, &a, failure)) {
            return false;
        }
    }
    return put_blocks(study, failure);
}
