/* workers.c - jobs in processes of their own, some at a time.
 *
 * While jobs run, the parent's signals are blocked and taken one by one, so no handler is needed:
 * SIGCHLD tells that a job ended, SIGINT and SIGTERM ask to end all. */
#include "bench/run/workers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm/base/clock.h"

#define TICK_NS 100000000
#define SAME_SIGNAL_NS UINT64_C(300000000)

typedef struct slot {
    pid_t child; /* 0 = free */
    unsigned job;
} slot;

typedef struct run {
    const bench_workers *w;
    slot slots[BENCH_MOST_WORKERS];
    unsigned next_job;
    unsigned n_running;
    uint64_t last_tick_ns;
    bool is_interrupted;
    uint64_t interrupted_ns;
    sigset_t taken;    /* signals that are blocked and waited for */
    sigset_t original; /* the signal mask from before */
    pid_t parent;
} run;

/* Ctrl-C goes to the whole group, but the parent decides when its children end. They die with
 * it. */
static void run_child(const run *r, unsigned job, unsigned slot_index)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != r->parent) {
        _exit(1);
    }
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &r->original, NULL);
    r->w->body(r->w->context, job, slot_index);
    fflush(NULL);
    _exit(0);
}

static unsigned free_slot(const run *r)
{
    unsigned i = 0;
    while (r->slots[i].child != 0) {
        i++;
    }
    return i;
}

/* False when no process could be started and none is running. */
static bool start_jobs(run *r, bench_failure *failure)
{
    while (!r->is_interrupted && r->n_running < r->w->n_at_once && r->next_job < r->w->n_jobs) {
        unsigned i = free_slot(r);
        fflush(NULL);
        pid_t child = fork();
        if (child < 0) {
            return r->n_running > 0 || bench_fail(failure, "fork: %s", strerror(errno));
        }
        if (child == 0) {
            run_child(r, r->next_job, i);
        }
        r->slots[i] = (slot){ .child = child, .job = r->next_job++ };
        r->n_running++;
    }
    return true;
}

static const char *why_ended(int status, char *out, size_t n)
{
    if (WIFSIGNALED(status)) {
        snprintf(out, n, "its process was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(out, n, "its process ended with status %d", WEXITSTATUS(status));
    } else {
        return NULL;
    }
    return out;
}

/* Collects jobs that ended; false if there were none. */
static bool reap(run *r)
{
    bool is_any = false;
    for (unsigned i = 0; i < r->w->n_at_once; i++) {
        int status;
        if (r->slots[i].child == 0 || waitpid(r->slots[i].child, &status, WNOHANG) <= 0) {
            continue;
        }
        is_any = true;
        r->slots[i].child = 0;
        r->n_running--;
        char text[128];
        const char *why = why_ended(status, text, sizeof text);
        if (r->w->ended && !(why && r->is_interrupted)) {
            r->w->ended(r->w->context, r->slots[i].job, i, why);
        }
    }
    return is_any;
}

static void interrupt(run *r)
{
    r->interrupted_ns = pl_clock_ns();
    r->is_interrupted = true;
    for (unsigned i = 0; i < r->w->n_at_once; i++) {
        if (r->slots[i].child != 0) {
            kill(r->slots[i].child, SIGTERM);
        }
    }
}

static void end_now(run *r, int signal_number)
{
    signal(signal_number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &r->taken, NULL);
    raise(signal_number);
}

/* Some programs send a signal to a process and then to its group: that counts as one
 * interruption. */
static void wait_a_little(run *r)
{
    const struct timespec pause = { .tv_nsec = TICK_NS };
    int taken = sigtimedwait(&r->taken, NULL, &pause);
    if (taken != SIGINT && taken != SIGTERM) {
        return;
    }
    if (!r->is_interrupted) {
        interrupt(r);
    } else if (pl_clock_ns() - r->interrupted_ns > SAME_SIGNAL_NS) {
        end_now(r, taken);
    }
}

static void tick(run *r)
{
    uint64_t now = pl_clock_ns();
    if (r->w->tick && now - r->last_tick_ns >= TICK_NS) {
        r->last_tick_ns = now;
        r->w->tick(r->w->context);
    }
}

/* A signal that was ignored when the command started stays ignored. */
static void take_signals(run *r)
{
    static const int wanted[] = { SIGINT, SIGTERM };
    sigemptyset(&r->taken);
    sigaddset(&r->taken, SIGCHLD);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct sigaction action;
        if (sigaction(wanted[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(&r->taken, wanted[i]);
        }
    }
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &r->taken, &r->original);
}

bench_workers_end bench_workers_run(const bench_workers *workers, bench_failure *failure)
{
    run r = { .w = workers, .parent = getpid() };
    take_signals(&r);
    bool ok = true;
    while (ok && (r.n_running > 0 || (!r.is_interrupted && r.next_job < workers->n_jobs))) {
        ok = start_jobs(&r, failure);
        if (ok && !reap(&r)) {
            wait_a_little(&r);
        }
        tick(&r);
    }
    if (r.is_interrupted) {
        const struct timespec none = { .tv_sec = 0 };
        while (sigtimedwait(&r.taken, NULL, &none) > 0) {
        }
    }
    sigprocmask(SIG_SETMASK, &r.original, NULL);
    if (r.is_interrupted) {
        return BENCH_WORKERS_INTERRUPTED;
    }
    return ok ? BENCH_WORKERS_DONE : BENCH_WORKERS_FAILED;
}

void *bench_shared_create(size_t bytes, bench_failure *failure)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    return shared;
}

void bench_shared_destroy(void *shared, size_t bytes)
{
    if (shared) {
        munmap(shared, bytes);
    }
}

typedef struct scout {
    const bench_target *target;
    bench_setup setup;
    bool is_ready;
    bench_failure failure;
} scout;

static void look(void *context, unsigned job, unsigned slot_index)
{
    (void)job;
    (void)slot_index;
    scout *s = context;
    s->is_ready = bench_setup_init(&s->setup, s->target, &s->failure);
}

static void looked(void *context, unsigned job, unsigned slot_index, const char *why)
{
    (void)job;
    (void)slot_index;
    scout *s = context;
    if (why) {
        bench_fail(&s->failure, "looking for a GPU: %s", why);
    }
}

bool bench_workers_setup(const bench_target *target, bench_setup *setup, bench_failure *failure)
{
    scout *s = bench_shared_create(sizeof *s, failure);
    if (!s) {
        return false;
    }
    s->target = target;
    bench_fail(&s->failure, "interrupted");
    bench_workers workers = {
        .n_jobs = 1, .n_at_once = 1, .body = look, .ended = looked, .context = s
    };
    bool ok = bench_workers_run(&workers, &s->failure) == BENCH_WORKERS_DONE && s->is_ready;
    if (ok) {
        *setup = s->setup;
    } else {
        *failure = s->failure;
    }
    bench_shared_destroy(s, sizeof *s);
    return ok;
}

unsigned bench_workers_standard(const bench_setup *setup)
{
    return bench_setup_is_sim(setup) && sysconf(_SC_NPROCESSORS_ONLN) >= 2 ? 2 : 1;
}
