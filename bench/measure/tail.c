/* tail.c - measures single calls. */
#include "bench/measure/tail.h"

#include <stdlib.h>

#include "api/calls/internal.h"
#include "bench/measure/quantile.h"
#include "bench/run/own.h"
#include "vmm/base/lock.h"
#include "vmm/tools/measure/measure_work.h"

#define PROGRESS_STEPS 16384u /* a power of two */

/* The least times of a step over all runs. */
typedef struct sample {
    float own_ns;
    float driver_ns;
    float hold_ns;
    uint16_t n_driver_calls;
    bool is_failed;
} sample;

typedef struct tail {
    const bench_tail_options *options;
    const bench_script *script;
    bench_failure *failure;
    sample *samples; /* by step */
    pleat_devptr *blocks;
    uint64_t *bytes;
    void **streams;
    uint32_t n_streams; /* created so far */
    pleat instance;
    pl_driver *drv;
    pl_work work;
    unsigned run;     /* 0, 1, ... */
    bool is_timing;   /* times holds of the lock, not calls */
    bool is_left_out; /* the allocator cannot do what the script needs */
} tail;

static const pleat_pool_id pool = { 1, 1 };

const char *bench_tail_kind(unsigned kind)
{
    static const char *const names[] = { "alloc", "free", "use", "statistics", "release" };
    return names[kind];
}

static bool say(tail *t, size_t step, const char *what, const char *why)
{
    return bench_fail(t->failure, "%s, %s: step %zu: %s failed: %s", t->script->name,
                      t->options->allocator, step, what, why);
}

/* ---- one step -------------------------------------------------------------------------------- */

static pleat_status call(tail *t, const bench_step *step)
{
    pleat_devptr *ptr = &t->blocks[step->block];
    void *stream = t->streams[step->stream];
    pleat_stats stats;
    switch (step->kind) {
    case BENCH_STEP_ALLOC:
        return pleat_block_alloc(t->instance, 0, step->bytes, stream, ptr);
    case BENCH_STEP_FREE:
        return pleat_block_free(t->instance, 0, *ptr, stream);
    case BENCH_STEP_USE:
        return pleat_block_record_stream(t->instance, 0, *ptr, stream);
    case BENCH_STEP_STATISTICS:
        return pleat_device_stats(t->instance, 0, &stats);
    default:
        return pleat_pool_release(t->instance, 0, pool);
    }
}

static float lesser(unsigned run, float now, float before)
{
    now = now > 0.0f ? now : 0.0f;
    return run == 0 || now < before ? now : before;
}

static pleat_status measure(tail *t, const bench_step *step, sample *s)
{
    bench_own own;
    bench_own_start(&own, t->drv);
    uint64_t begin = bench_ticks();
    pleat_status st = call(t, step);
    bench_own_add(&own, begin);
    bench_own_time took = bench_own_read(&own);
    s->own_ns = lesser(t->run, (float)took.own_ns, s->own_ns);
    s->driver_ns = lesser(t->run, (float)took.driver_ns, s->driver_ns);
    s->n_driver_calls = (uint16_t)(took.n_driver_calls < UINT16_MAX ? took.n_driver_calls
                                                                    : UINT16_MAX);
    return st;
}

static pleat_status measure_hold(tail *t, const bench_step *step, sample *s)
{
    (void)pl_lock_longest_ns();
    pleat_status st = call(t, step);
    double ns = (double)pl_lock_longest_ns() - bench_clock_calibrated()->read_ns;
    s->hold_ns = lesser(t->run, (float)ns, s->hold_ns);
    return st;
}

/* Does a measured step. Steps on blocks whose allocation failed are left out. */
static bool do_call(tail *t, size_t i)
{
    const bench_step *step = &t->script->steps[i];
    sample *s = &t->samples[i];
    bool is_on_block = step->kind == BENCH_STEP_FREE || step->kind == BENCH_STEP_USE;
    if (is_on_block && t->blocks[step->block] == 0) {
        s->is_failed = true;
        return true;
    }
    pleat_status st = t->is_timing ? measure_hold(t, step, s) : measure(t, step, s);
    if (step->kind == BENCH_STEP_ALLOC) {
        s->is_failed = st != PLEAT_OK;
        t->bytes[step->block] = step->bytes;
        t->blocks[step->block] = st == PLEAT_OK ? t->blocks[step->block] : 0;
        return true;
    }
    if (step->kind == BENCH_STEP_FREE) {
        t->blocks[step->block] = 0;
    }
    return st == PLEAT_OK || say(t, i, bench_tail_kind(step->kind), pleat_last_error()->text);
}

/* Does a step that is not measured. */
static bool do_other(tail *t, size_t i)
{
    const bench_step *step = &t->script->steps[i];
    void *stream = t->streams[step->stream];
    pleat_devptr ptr = t->blocks[step->block];
    pleat_status st = PLEAT_OK;
    switch (step->kind) {
    case BENCH_STEP_WORK:
        if (ptr != 0) {
            st = pl_work_touch(&t->work, stream, ptr, t->bytes[step->block]);
        }
        break;
    case BENCH_STEP_FINISH:
        for (uint32_t k = 0; k < t->n_streams && st == PLEAT_OK; k++) {
            st = pl_work_finish(&t->work, t->streams[k]);
        }
        break;
    case BENCH_STEP_POOL_BEGIN:
        st = pleat_pool_begin(t->instance, 0, pool, NULL, NULL, NULL);
        t->is_left_out = st == PLEAT_ENOTSUP;
        break;
    default:
        st = pleat_pool_end(t->instance, 0, pool);
        break;
    }
    bool is_work = step->kind == BENCH_STEP_WORK || step->kind == BENCH_STEP_FINISH;
    return st == PLEAT_OK || say(t, i, is_work ? "work on the GPU" : "routing to a private pool",
                                 is_work ? pl_driver_last_error()->text : pleat_last_error()->text);
}

/* ---- one run --------------------------------------------------------------------------------- */

static bool run_steps(tail *t)
{
    const bench_script *script = t->script;
    unsigned n_runs = 2 * t->options->n_rounds;
    unsigned run = t->run + (t->is_timing ? t->options->n_rounds : 0);
    for (size_t i = 0; i < script->n_steps; i++) {
        if (i % PROGRESS_STEPS == 0 && t->options->progress) {
            double done = (double)i / (double)script->n_steps;
            bench_progress_step(t->options->progress, (run + done) / n_runs);
        }
        if (script->steps[i].kind < BENCH_N_MEASURED ? !do_call(t, i) : !do_other(t, i)) {
            return false;
        }
    }
    return true;
}

static bool run_with_work(tail *t)
{
    bool ok = true;
    for (t->n_streams = 0; t->n_streams < t->script->n_streams && ok; t->n_streams += ok) {
        ok = pl_work_stream_create(&t->work, &t->streams[t->n_streams]) == PLEAT_OK ||
             bench_fail(t->failure, "cannot create a stream: %s", pl_driver_last_error()->text);
    }
    pl_lock_time_holds(t->is_timing);
    ok = ok && run_steps(t);
    pl_lock_time_holds(false);
    pleat_status st = pleat_destroy(t->instance, PLEAT_DESTROY_FORCE);
    if (ok && st != PLEAT_OK) {
        ok = bench_fail(t->failure, "%s: destruction failed: %s", t->options->allocator,
                        pleat_last_error()->text);
    }
    for (uint32_t i = 0; i < t->n_streams; i++) {
        st = pl_work_finish(&t->work, t->streams[i]);
        st = st == PLEAT_OK ? pl_work_stream_destroy(&t->work, t->streams[i]) : st;
        if (ok && st != PLEAT_OK) {
            ok = bench_fail(t->failure, "cannot destroy a stream: %s",
                            pl_driver_last_error()->text);
        }
    }
    return ok;
}

static bool run_once(tail *t)
{
    bench_setup setup = *t->options->setup;
    setup.depth = t->script->depth ? t->script->depth : setup.depth;
    if (!bench_setup_create(&setup, t->options->allocator, t->script->memory_bytes, &t->instance,
                            t->failure)) {
        return false;
    }
    t->drv = pleat_internal_driver(t->instance);
    if (!t->drv || !pleat_internal_device(t->instance, 0) ||
        pl_work_open(&t->work, pl_driver_kind_of(t->drv), 0) != PLEAT_OK) {
        bench_fail(t->failure, "%s", pleat_last_error()->text);
        pleat_status st = pleat_destroy(t->instance, PLEAT_DESTROY_FORCE);
        (void)st; /* the first failure is the one to report */
        return false;
    }
    bool ok = run_with_work(t);
    pl_work_close(&t->work);
    return ok;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* `sorted` has room for every step. */
static void summarise(const tail *t, unsigned kind, float *sorted, bench_tail_figures *out)
{
    *out = (bench_tail_figures){ .n_calls = 0 };
    for (size_t i = 0; i < t->script->n_steps; i++) {
        const sample *s = &t->samples[i];
        if (t->script->steps[i].kind != kind || (s->is_failed && kind != BENCH_STEP_ALLOC)) {
            continue;
        }
        if (out->n_calls == 0 || (double)s->own_ns > out->most) {
            out->most = (double)s->own_ns;
            out->worst_step = i;
            out->worst_driver_calls = s->n_driver_calls;
        }
        double driver_ns = (double)s->driver_ns;
        double hold_ns = (double)s->hold_ns;
        out->most_driver = driver_ns > out->most_driver ? driver_ns : out->most_driver;
        out->longest_hold = hold_ns > out->longest_hold ? hold_ns : out->longest_hold;
        out->n_failed += s->is_failed;
        sorted[out->n_calls++] = s->own_ns;
    }
    if (out->n_calls > 0) {
        bench_quantile_sort(sorted, out->n_calls);
        out->p50 = bench_quantile(sorted, out->n_calls, 2);
        out->p99 = bench_quantile(sorted, out->n_calls, 100);
        out->p99_9 = bench_quantile(sorted, out->n_calls, 1000);
    }
}

static bool run_all(tail *t, float *sorted, bench_tail_result *out)
{
    bench_clock_calibrated();
    out->is_left_out = false;
    for (unsigned half = 0; half < 2; half++) {
        t->is_timing = half == 1;
        for (t->run = 0; t->run < t->options->n_rounds; t->run++) {
            if (!run_once(t)) {
                out->is_left_out = t->is_left_out;
                return t->is_left_out;
            }
        }
    }
    for (unsigned kind = 0; kind < BENCH_N_MEASURED; kind++) {
        summarise(t, kind, sorted, &out->of[kind]);
    }
    return true;
}

bool bench_tail(const bench_tail_options *options, bench_tail_result *out, bench_failure *failure)
{
    const bench_script *script = options->script;
    tail t = { .options = options, .script = script, .failure = failure };
    t.samples = calloc(script->n_steps + 1, sizeof *t.samples);
    t.blocks = calloc(script->n_blocks + 1, sizeof *t.blocks);
    t.bytes = calloc(script->n_blocks + 1, sizeof *t.bytes);
    t.streams = calloc(script->n_streams + 1, sizeof *t.streams);
    float *sorted = calloc(script->n_steps + 1, sizeof *sorted);
    bool ok = t.samples && t.blocks && t.bytes && t.streams && sorted;
    ok = ok ? run_all(&t, sorted, out) : bench_fail(failure, "out of host memory");
    free(t.samples);
    free(t.blocks);
    free(t.bytes);
    free(t.streams);
    free(sorted);
    return ok;
}
