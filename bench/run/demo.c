/* demo.c - runs the bundled traces in child processes.
 *
 * The first child finds out the driver. Then each job has a child process. The results are in
 * memory shared with the parent. */
#include "bench/run/demo.h"
#include "bench/base/size.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/run/workers.h"
#include "bench/works/files.h"
#include "vmm/base/clock.h"

const char *const bench_demo_allocators[BENCH_DEMO_N_ALLOCATORS] = { "pleat", "torch-native" };

static int largest_first(const void *a, const void *b)
{
    struct stat x = { .st_size = 0 };
    struct stat y = { .st_size = 0 };
    stat(*(char *const *)a, &x);
    stat(*(char *const *)b, &y);
    return (x.st_size < y.st_size) - (x.st_size > y.st_size);
}

static void add_jobs(bench_demo *demo, char **paths, unsigned n)
{
    /* Longest jobs first. So the workers end together. */
    qsort(paths, n, sizeof *paths, largest_first);
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < BENCH_DEMO_N_ALLOCATORS; k++) {
            bench_demo_job *job = &demo->jobs[demo->n_jobs++];
            snprintf(job->path, sizeof job->path, "%s", paths[i]);
            job->allocator = bench_demo_allocators[k];
        }
    }
}

static bool find_jobs(bench_demo *demo, bench_failure *failure)
{
    char folder[1024];
    struct dirent **entries;
    unsigned n_entries = bench_file_bundled(folder, sizeof folder, &entries);
    char *paths[BENCH_DEMO_MOST_TRACES];
    unsigned n = 0;
    for (unsigned i = 0; i < n_entries; i++) {
        if (n < BENCH_DEMO_MOST_TRACES &&
            asprintf(&paths[n], "%s/%s", folder, entries[i]->d_name) > 0) {
            n++;
        }
        free(entries[i]);
    }
    free(entries);
    add_jobs(demo, paths, n);
    for (unsigned i = 0; i < n; i++) {
        free(paths[i]);
    }
    return n > 0 || bench_fail(failure, "the bundled traces are not there");
}

static bool run_job(const bench_demo *demo, bench_demo_job *job)
{
    bench_work work;
    if (!bench_work_open(job->path, &work, &job->failure)) {
        return false;
    }
    bench_memory tight = { .kind = BENCH_MEMORY_RATIO, .ratio = BENCH_DEMO_TIGHT };
    bench_replay_options unlimited = { .setup = &demo->setup,
                                       .allocator = job->allocator,
                                       .loops = 1 };
    bench_replay_options limited = unlimited;
    limited.memory_bytes = bench_memory_bytes(&tight, work.peak_live_bytes,
                                              demo->setup.granule_bytes);
    bool ok = bench_replay(&work, &unlimited, &job->unlimited, &job->failure) &&
              bench_replay(&work, &limited, &job->tight, &job->failure) &&
              bench_fit(&work, &unlimited, &job->fit, &job->failure);
    bench_work_close(&work);
    return ok;
}

/* Runs in a separate process. */
static void work(void *context, unsigned i, unsigned slot)
{
    (void)slot;
    bench_demo *demo = context;
    bench_demo_job *job = &demo->jobs[i];
    uint64_t begin = pl_clock_ns();
    job->is_failed = !run_job(demo, job);
    job->seconds = (double)(pl_clock_ns() - begin) / 1e9;
    job->is_done = true;
}

static void tell(void *context, unsigned i, unsigned slot, const char *why)
{
    (void)slot;
    bench_demo *demo = context;
    bench_demo_job *job = &demo->jobs[i];
    const char *slash = strrchr(job->path, '/');
    const char *name = slash ? slash + 1 : job->path;
    if (why) {
        job->is_failed = true;
        bench_fail(&job->failure, "%s, %s: %s", name, job->allocator, why);
    }
    fprintf(stderr, "[%2u/%u] %-32s %-13s %6.1f s\n", ++demo->n_done, demo->n_jobs, name,
            job->allocator, job->seconds);
}

static bool run(bench_demo *demo, const bench_target *target, bench_failure *failure)
{
    if (!bench_workers_setup(target, &demo->setup, failure)) {
        return false;
    }
    char banner[192];
    fprintf(stderr, "%s\n", bench_setup_banner(&demo->setup, banner, sizeof banner));
    bench_workers workers = {
        .n_jobs = demo->n_jobs,
        .n_at_once = bench_workers_standard(&demo->setup),
        .body = work,
        .ended = tell,
        .context = demo,
    };
    bench_workers_end end = bench_workers_run(&workers, failure);
    if (end == BENCH_WORKERS_INTERRUPTED) {
        raise(SIGINT); /* not blocked here: there are no results yet */
    }
    return end == BENCH_WORKERS_DONE;
}

bench_demo *bench_demo_run(const bench_target *target, bench_failure *failure)
{
    bench_demo *demo = bench_shared_create(sizeof *demo, failure);
    if (demo && (!find_jobs(demo, failure) || !run(demo, target, failure))) {
        bench_demo_free(demo);
        return NULL;
    }
    return demo;
}

void bench_demo_free(bench_demo *demo)
{
    bench_shared_destroy(demo, sizeof *demo);
}
