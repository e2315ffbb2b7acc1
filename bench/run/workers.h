/* workers.h - jobs in processes of their own, some at a time.
 *
 * The parent opens no driver, because a simulator or CUDA context that was opened before a fork is
 * useless in the child. A job that crashes or is killed loses only its own result. Results are in
 * memory shared with the parent. */
#ifndef PLEAT_BENCH_WORKERS_H
#define PLEAT_BENCH_WORKERS_H

#include <stddef.h>

#include "bench/run/setup.h"

enum { BENCH_MOST_WORKERS = 64 };

typedef struct bench_workers {
    unsigned n_jobs;    /* started in the order 0, 1, ... */
    unsigned n_at_once; /* 1 to BENCH_MOST_WORKERS; each running job has a slot of its own */
    /* Runs in the child, which then exits with status 0. */
    void (*body)(void *context, unsigned job, unsigned slot);
    /* Runs in the parent when the child is gone. `why` is NULL, or what ended the child early. Not
     * called for jobs that an interruption ended. */
    void (*ended)(void *context, unsigned job, unsigned slot, const char *why);
    void (*tick)(void *context); /* in the parent, about ten times a second; NULL = nothing */
    void *context;
} bench_workers;

typedef enum bench_workers_end {
    BENCH_WORKERS_DONE,
    BENCH_WORKERS_INTERRUPTED, /* SIGINT or SIGTERM came; a second one ends the process */
    BENCH_WORKERS_FAILED,      /* a process could not be started: see the message */
} bench_workers_end;

/* Run all jobs. When it returns, no child is left. Only one thread may call it. */
bench_workers_end bench_workers_run(const bench_workers *workers, bench_failure *failure);

/* Zeroed memory that children share with the parent; NULL and a message when there is none. */
void *bench_shared_create(size_t bytes, bench_failure *failure);
void bench_shared_destroy(void *shared, size_t bytes);

/* Run bench_setup_init in a child process. False and its message, or "interrupted". */
bool bench_workers_setup(const bench_target *target, bench_setup *setup, bench_failure *failure);

/* The best number of jobs at once on this machine: two on the simulator if there are two
 * processors, one on a real GPU. */
unsigned bench_workers_standard(const bench_setup *setup);

#endif
