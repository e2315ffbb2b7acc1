/* reporter.c - runs the program that draws the report of a folder: python3 FOLDER/report.py OUT, of
 * a fleet fleet.py.
 *
 * Its output goes to a file and is shown only if it fails. */
#include "bench/ab/reporter.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/folder.h"

#define PYTHON "python3"

typedef struct drawing {
    const char *folder;
    const char *option; /* of the script, too; NULL = none */
    char script[2048];
    FILE *said;
    int *start_error; /* shared: errno if Python could not be started */
    bool is_drawn;
    char why[256];
} drawing;

static void draw(void *context, unsigned job, unsigned slot)
{
    (void)job;
    (void)slot;
    drawing *d = context;
    int said = fileno(d->said);
    if (dup2(said, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0) {
        _exit(126);
    }
    execlp(PYTHON, PYTHON, "-B", d->script, d->folder, d->option, (char *)NULL);
    *d->start_error = errno;
    _exit(127);
}

static void drawn(void *context, unsigned job, unsigned slot, const char *why)
{
    (void)job;
    (void)slot;
    drawing *d = context;
    d->is_drawn = why == NULL;
    if (*d->start_error) {
        snprintf(d->why, sizeof d->why, PYTHON ": %s", strerror(*d->start_error));
    } else if (why) {
        snprintf(d->why, sizeof d->why, "%s", why);
    }
}

static void show_said(const drawing *d)
{
    char line[512];
    rewind(d->said);
    while (fgets(line, sizeof line, d->said)) {
        fprintf(stderr, "  %s%s", line, strchr(line, '\n') ? "" : "\n");
    }
}

static bench_workers_end run(drawing *d)
{
    bench_workers workers = {
        .n_jobs = 1, .n_at_once = 1, .body = draw, .ended = drawn, .context = d
    };
    bench_failure failure = { .text = "" };
    bench_workers_end end = bench_workers_run(&workers, &failure);
    if (end == BENCH_WORKERS_FAILED) {
        snprintf(d->why, sizeof d->why, "%.200s", failure.text);
    }
    return end;
}

bench_workers_end bench_reporter_run(const char *folder, const char *program, const char *option)
{
    bench_failure failure = { .text = "" };
    drawing d = { .folder = folder, .option = option, .why = "interrupted" };
    char found[2000];
    if (!bench_folder_find("PLEAT_REPORT", "report", found, sizeof found)) {
        fputs("pleat: the report was not drawn: its program is not beside this command nor "
              "installed; "
              "PLEAT_REPORT may name its folder\n",
              stderr);
        return BENCH_WORKERS_FAILED;
    }
    snprintf(d.script, sizeof d.script, "%s/%s", found, program);
    d.said = tmpfile();
    d.start_error = bench_shared_create(sizeof *d.start_error, &failure);
    bench_workers_end end = BENCH_WORKERS_FAILED;
    if (!d.said || !d.start_error) {
        snprintf(d.why, sizeof d.why, "%s", strerror(errno));
    } else {
        end = run(&d);
    }
    if (!d.is_drawn) {
        fprintf(stderr, "pleat: the report was not drawn: %s\n", d.why);
        if (d.said) {
            show_said(&d);
        }
        fprintf(stderr, "pleat: the results are there; to draw it: " PYTHON " '%s' '%s'\n",
                d.script, folder);
    }
    if (d.said) {
        fclose(d.said);
    }
    bench_shared_destroy(d.start_error, sizeof *d.start_error);
    return end == BENCH_WORKERS_DONE && !d.is_drawn ? BENCH_WORKERS_FAILED : end;
}
