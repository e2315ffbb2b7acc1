/* crowd.c - one round of several threads at once. */
#include "bench/pairs/crowd.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "vmm/base/clock.h"
#include "vmm/tools/measure/measure_work.h"

typedef struct crowd {
    bench_row *row;             /* const */
    const bench_course *course; /* const */
    _Atomic unsigned n_ready;   /* atomic */
    _Atomic int order;          /* atomic: 0 wait, 1 go, -1 go home */
} crowd;

typedef struct member {
    crowd *crowd;
    pthread_t thread;
    unsigned number;
    bool is_done;
    uint64_t cpu_ns;
    uint64_t end_ns;
} member;

static void *work(void *context)
{
    member *m = context;
    const bench_through *through = &m->crowd->row->through;
    if (through->enter) {
        through->enter();
    }
    pl_work gpu; /* context to make current, as in every thread of a CUDA program */
    bool has_gpu = pl_work_open(&gpu, PL_DRIVER_SIM, 0) == PLEAT_OK;
    atomic_fetch_add(&m->crowd->n_ready, 1);
    int order;
    while ((order = atomic_load(&m->crowd->order)) == 0) {
        sched_yield();
    }
    if (order > 0) {
        m->is_done = has_gpu &&
                     bench_loop_run(m->crowd->row, m->crowd->course, m->number, &m->cpu_ns);
        m->end_ns = pl_clock_ns();
    }
    if (has_gpu) {
        pl_work_close(&gpu);
    }
    return NULL;
}

bool bench_crowd_run(bench_row *row, const bench_course *course, uint64_t *cpu_ns,
                     uint64_t *wall_ns, bool *is_done, bench_failure *failure)
{
    crowd c = { .row = row, .course = course };
    member members[BENCH_SCENARIO_MOST_THREADS];
    unsigned wanted = course->scenario->n_threads;
    unsigned n = 0;
    int error = 0;
    for (; n < wanted && error == 0; n += error == 0) {
        members[n] = (member){ .crowd = &c, .number = n };
        error = pthread_create(&members[n].thread, NULL, work, &members[n]);
    }
    while (atomic_load(&c.n_ready) < n) {
        sched_yield();
    }
    uint64_t begin = pl_clock_ns();
    atomic_store(&c.order, error == 0 ? 1 : -1);
    *cpu_ns = 0;
    *wall_ns = 0;
    *is_done = true;
    for (unsigned i = 0; i < n; i++) {
        pthread_join(members[i].thread, NULL);
        *is_done = *is_done && members[i].is_done;
        *cpu_ns += members[i].cpu_ns;
        uint64_t ns = members[i].end_ns - begin;
        *wall_ns = ns > *wall_ns ? ns : *wall_ns;
    }
    return error == 0 || bench_fail(failure, "cannot start a thread: %s", strerror(error));
}
