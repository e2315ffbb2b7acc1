/* demo.c - runs the bundled traces in child processes.
 *
 * The parent opens no driver: a simulator or a CUDA context that was opened before a fork is of no
 * use in the child. A first child finds out what driver there is; then each worker takes the next
 * job until none is left. Everything they write lies in memory shared with the parent. */
#include "bench/demo.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/clock.h"
#include "bench/work/files.h"

enum { MOST_WORKERS = 2 };

#define POLL_US 50000u

const char *const bench_demo_allocators[BENCH_DEMO_N_ALLOCATORS] = { "pleat", "torch-native" };

static int is_trace(const struct dirent *entry)
{
    static const char ending[] = ".trace.gz";
    size_t n = strlen(entry->d_name);
    return n >= sizeof ending && strcmp(entry->d_name + n - (sizeof ending - 1), ending) == 0;
}

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
    /* The longest jobs first, so that the workers end together. */
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
    if (!bench_file_folder(folder, sizeof folder)) {
        return bench_fail(failure, "the bundled traces are not there");
    }
    struct dirent **entries;
    int n_entries = scandir(folder, &entries, is_trace, alphasort);
    if (n_entries < 0) {
        return bench_fail(failure, "%s: %s", folder, strerror(errno));
    }
    char *paths[BENCH_DEMO_MOST_TRACES];
    unsigned n = 0;
    for (int i = 0; i < n_entries; i++) {
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
    return n > 0 || bench_fail(failure, "%s holds no trace", folder);
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

static void work(bench_demo *demo)
{
    unsigned i;
    while ((i = atomic_fetch_add(&demo->next_job, 1)) < demo->n_jobs) {
        bench_demo_job *job = &demo->jobs[i];
        uint64_t begin = bench_now_ns();
        job->is_failed = !run_job(demo, job);
        job->seconds = (double)(bench_now_ns() - begin) / 1e9;
        job->is_done = true;
        atomic_fetch_add(&demo->n_done, 1);
    }
}

static pid_t start(bench_demo *demo, void (*body)(bench_demo *))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body(demo);
        fflush(NULL);
        _exit(0);
    }
    return child;
}

/* Shows a line for each job that ended since the last look. */
static void tell(const bench_demo *demo, bool *is_told)
{
    unsigned n_told = 0;
    for (unsigned i = 0; i < demo->n_jobs; i++) {
        n_told += is_told[i];
    }
    for (unsigned i = 0; i < demo->n_jobs; i++) {
        const bench_demo_job *job = &demo->jobs[i];
        if (job->is_done && !is_told[i]) {
            is_told[i] = true;
            const char *slash = strrchr(job->path, '/');
            fprintf(stderr, "[%2u/%u] %-32s %-13s %6.1f s\n", ++n_told, demo->n_jobs,
                    slash ? slash + 1 : job->path, job->allocator, job->seconds);
        }
    }
}

/* Until all children are gone. False when one did not end as it should. */
static bool wait_for(const bench_demo *demo, unsigned n_children)
{
    bool is_told[BENCH_DEMO_MOST_TRACES * BENCH_DEMO_N_ALLOCATORS] = { false };
    bool ok = true;
    unsigned last_done = 0;
    while (n_children > 0) {
        int status;
        pid_t child = waitpid(-1, &status, WNOHANG);
        if (child > 0) {
            n_children--;
            ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        } else if (child < 0 && errno != EINTR) {
            return false;
        } else {
            usleep(POLL_US);
        }
        unsigned n_done = atomic_load(&demo->n_done);
        if (n_done != last_done || n_children == 0) {
            tell(demo, is_told);
            last_done = n_done;
        }
    }
    return ok;
}

static unsigned n_workers(const bench_demo *demo)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return bench_setup_is_sim(&demo->setup) && processors >= MOST_WORKERS ? MOST_WORKERS : 1;
}

static const bench_options *scout_options; /* what the first child sets up; const once it runs */

static void scout(bench_demo *demo)
{
    demo->is_ready = bench_setup_init(&demo->setup, scout_options, &demo->failure);
}

static bool run(bench_demo *demo, const bench_options *options, bench_failure *failure)
{
    scout_options = options;
    if (start(demo, scout) < 0) {
        return bench_fail(failure, "fork: %s", strerror(errno));
    }
    if (!wait_for(demo, 1)) {
        return bench_fail(failure, "looking for a GPU ended badly");
    }
    if (!demo->is_ready) {
        *failure = demo->failure;
        return false;
    }
    char banner[192];
    fprintf(stderr, "%s\n", bench_setup_banner(&demo->setup, banner, sizeof banner));
    unsigned n_started = 0;
    for (unsigned i = 0; i < n_workers(demo); i++) {
        n_started += start(demo, work) > 0;
    }
    if (!wait_for(demo, n_started) || n_started == 0) {
        return bench_fail(failure, "a worker process ended badly");
    }
    return true;
}

bench_demo *bench_demo_run(const bench_options *options, bench_failure *failure)
{
    bench_demo *demo = mmap(NULL, sizeof *demo, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0);
    if (demo == MAP_FAILED) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    if (!find_jobs(demo, failure) || !run(demo, options, failure)) {
        bench_demo_free(demo);
        return NULL;
    }
    return demo;
}

void bench_demo_free(bench_demo *demo)
{
    munmap(demo, sizeof *demo);
}
