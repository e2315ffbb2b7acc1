/* sleep.c - see sleep.h. One thread. */
#include "bench/measure/sleep.h"

#include <stdlib.h>

#include "api/calls/internal.h"
#include "vmm/base/clock.h"

static const char tag[] = "bench";

typedef struct sleeper {
    const bench_sleep_options *options;
    bench_sleep_result *out;
    bench_failure *failure;
    pleat instance;
    pl_work work;
    void *stream;
    pleat_devptr *blocks;
} sleeper;

/* A reading of all clocks. */
typedef struct reading {
    uint64_t ns;
    double driver_ns;
    uint64_t n_driver_calls;
} reading;

static bool say(const sleeper *s, const char *what)
{
    return bench_fail(s->failure, "%s failed: %s", what, pleat_last_error()->text);
}

static bool read_clocks(const sleeper *s, reading *out)
{
    pleat_stats stats;
    if (pleat_device_stats(s->instance, 0, &stats) != PLEAT_OK) {
        return say(s, "reading statistics");
    }
    bool is_sim = bench_setup_is_sim(s->options->setup);
    out->driver_ns = is_sim ? pl_work_cost_us(&s->work) * 1e3 : (double)stats.driver_ns;
    out->n_driver_calls = stats.n_driver_calls;
    out->ns = pl_clock_ns();
    return true;
}

static void note(bench_sleep_call *call, const reading *begin, uint64_t end_ns, const reading *end,
                 bool is_first)
{
    double ns = (double)(end_ns - begin->ns);
    double driver_ns = end->driver_ns - begin->driver_ns;
    call->ns = is_first || ns < call->ns ? ns : call->ns;
    call->driver_ns = is_first || driver_ns < call->driver_ns ? driver_ns : call->driver_ns;
    call->n_driver_calls = end->n_driver_calls - begin->n_driver_calls;
}

/* ---- what is measured ------------------------------------------------------------------------ */

/* A sleep and the wake after it. */
static bool sleep_and_wake(const sleeper *s, pleat_sleep how, bool is_first)
{
    bench_sleep_figures *f = &s->out->of[how];
    const char *folder = how == PLEAT_SLEEP_FILE ? s->options->folder : NULL;
    pleat_slept slept;
    reading begin;
    reading end;
    if (!read_clocks(s, &begin)) {
        return false;
    }
    pleat_status st = pleat_tag_sleep(s->instance, 0, tag, how, folder, &slept);
    uint64_t end_ns = pl_clock_ns();
    if (st != PLEAT_OK || !read_clocks(s, &end)) {
        return say(s, "a sleep");
    }
    note(&f->sleep, &begin, end_ns, &end, is_first);
    f->bytes = slept.bytes;
    f->kept_bytes = slept.kept_bytes;
    if (!read_clocks(s, &begin)) {
        return false;
    }
    st = pleat_tag_wake(s->instance, 0, tag, 0, &slept);
    end_ns = pl_clock_ns();
    if (st != PLEAT_OK || !read_clocks(s, &end)) {
        return say(s, "a wake");
    }
    note(&f->wake, &begin, end_ns, &end, is_first);
    return slept.bytes == f->bytes ||
           bench_fail(s->failure, "%llu bytes went, and %llu came", (unsigned long long)f->bytes,
                      (unsigned long long)slept.bytes);
}

static uint64_t lesser(uint64_t a, uint64_t b, bool is_first)
{
    return is_first || a < b ? a : b;
}

/* Time plain copies of one block as large as all blocks together. */
static bool time_engine(sleeper *s)
{
    uint64_t bytes = s->options->n_blocks * s->options->block_bytes;
    pl_engine_times *least = &s->out->engine;
    pleat_devptr ptr;
    uint64_t released;
    if (pleat_block_alloc(s->instance, 0, bytes, s->stream, &ptr) != PLEAT_OK) {
        return say(s, "an allocation");
    }
    pleat_status st = pl_work_touch(&s->work, s->stream, ptr, bytes);
    st = st == PLEAT_OK ? pl_work_finish(&s->work, s->stream) : st;
    for (unsigned i = 0; i < s->options->n_rounds && st == PLEAT_OK; i++) {
        pl_engine_times one;
        st = pl_engine_time(&s->work, ptr, bytes, &one);
        if (st == PLEAT_OK) {
            least->lock_ns = lesser(one.lock_ns, least->lock_ns, i == 0);
            least->out_ns = lesser(one.out_ns, least->out_ns, i == 0);
            least->in_ns = lesser(one.in_ns, least->in_ns, i == 0);
        }
    }
    if (st != PLEAT_OK) {
        return bench_fail(s->failure, "plain copies failed: %s; %s", pleat_status_text(st),
                          pl_driver_last_error()->text);
    }
    st = pleat_block_free(s->instance, 0, ptr, s->stream);
    st = st == PLEAT_OK ? pleat_device_trim(s->instance, 0, 0, true, &released) : st;
    return st == PLEAT_OK || say(s, "giving memory back");
}

static bool make_blocks(sleeper *s)
{
    for (uint64_t i = 0; i < s->options->n_blocks; i++) {
        if (pleat_tag_alloc(s->instance, 0, tag, s->options->block_bytes, s->stream,
                            &s->blocks[i]) != PLEAT_OK) {
            return say(s, "an allocation");
        }
        if (pl_work_touch(&s->work, s->stream, s->blocks[i], s->options->block_bytes) != PLEAT_OK) {
            return bench_fail(s->failure, "work failed: %s", pl_driver_last_error()->text);
        }
    }
    return pl_work_finish(&s->work, s->stream) == PLEAT_OK;
}

static bool run_all(sleeper *s)
{
    unsigned n = s->options->n_rounds;
    if (!time_engine(s) || !make_blocks(s)) {
        return false;
    }
    for (unsigned i = 0; i < n * BENCH_SLEEP_N_HOWS; i++) {
        if (s->options->progress) {
            bench_progress_step(s->options->progress, (double)i / (n * BENCH_SLEEP_N_HOWS));
        }
        if (!sleep_and_wake(s, (pleat_sleep)(i / n), i % n == 0)) {
            return false;
        }
    }
    return pl_work_n_hazards(&s->work) == 0 || bench_fail(s->failure, "a hazard was seen");
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool run_with_work(sleeper *s)
{
    if (pl_work_stream_create(&s->work, &s->stream) != PLEAT_OK) {
        return bench_fail(s->failure, "cannot create a stream: %s", pl_driver_last_error()->text);
    }
    bool ok = run_all(s);
    pleat_status st = pleat_destroy(s->instance, PLEAT_DESTROY_FORCE);
    if (ok && st != PLEAT_OK) {
        ok = say(s, "destruction");
    }
    st = pl_work_stream_destroy(&s->work, s->stream);
    return st == PLEAT_OK ? ok : false;
}

bool bench_sleep(const bench_sleep_options *options, bench_sleep_result *out,
                 bench_failure *failure)
{
    sleeper s = { .options = options, .out = out, .failure = failure };
    *out = (bench_sleep_result){ .engine = { 0 } };
    s.blocks = calloc(options->n_blocks, sizeof *s.blocks);
    if (!s.blocks) {
        return bench_fail(failure, "out of host memory");
    }
    bool ok = bench_setup_create(options->setup, "pleat", 0, &s.instance, failure);
    if (!ok) {
        free(s.blocks);
        return false;
    }
    pl_driver *drv = pleat_internal_driver(s.instance);
    if (!drv || !pleat_internal_device(s.instance, 0) ||
        pl_work_open(&s.work, pl_driver_kind_of(drv), 0) != PLEAT_OK) {
        ok = bench_fail(failure, "%s", pleat_last_error()->text);
        pleat_status st = pleat_destroy(s.instance, PLEAT_DESTROY_FORCE);
        (void)st; /* the first failure is the one to report */
    } else {
        ok = run_with_work(&s);
        pl_work_close(&s.work);
    }
    free(s.blocks);
    return ok;
}
