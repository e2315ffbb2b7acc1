/* replay.c - runs a work through an allocator and measures. */
#include "bench/run/replay.h"
#include "bench/base/size.h"

#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "bench/run/lasting.h"
#include "bench/run/own.h"
#include "bench/run/request.h"
#include "vmm/tools/measure/measure_work.h"

#define PROGRESS_EVENTS 16384u /* a power of two */

typedef bench_slot slot;

typedef struct replay {
    const bench_work *source;
    const bench_replay_options *options;
    bench_record *record;
    bench_failure *failure;
    pleat instance;
    pl_driver *drv;
    pl_device *dev;
    pl_work work;
    void **streams;
    uint32_t n_streams; /* created so far */
    slot *slots;
    slot **order; /* scratch: live blocks at the end of a loop */
    bench_lasting lasting;
    uint64_t n_seen;     /* events over all loops, including the current one */
    bench_own own;       /* used when timed */
    uint64_t live_bytes; /* in blocks of 512 */
    pleat_devptr last_ptr;
    double start_us; /* driver time at the start of the loops */
    bool is_stopped;
    bool is_later;            /* in a later pass: only the driver's time counts */
    bench_timeline *timeline; /* NULL: none, or ended */
    bench_recorder recorder;  /* used for a timeline */
    bench_tracer *tracer;     /* NULL: none, or ended */
} replay;

static bool touch(replay *r, const slot *s)
{
    if (pl_work_touch(&r->work, r->streams[s->stream], s->ptr, s->bytes) == PLEAT_OK) {
        return true;
    }
    return bench_fail(r->failure, "%s, %s: work on a live block failed: %s", r->source->name,
                      r->options->allocator, pl_driver_last_error()->text);
}

static bool take_dump(replay *r, bench_dump_at moment)
{
    return !r->options->dump || r->is_later ||
           bench_dump_take(r->options->dump, r->instance, moment, r->failure);
}

static bool note_failed_allocation(replay *r, const bench_event *event)
{
    bench_record *record = r->record;
    if (r->is_later) {
        return true;
    }
    bool is_first = record->oom_count++ == 0;
    if (is_first) {
        snprintf(record->first_failure, sizeof record->first_failure, "%s", bench_request_error());
        record->first_failure_event = r->n_seen - 1;
    }
    if (r->timeline) {
        r->recorder.bucket.failures++;
    }
    if (r->tracer) {
        bench_tracer_refusal(r->tracer, event->bytes, event->stream, bench_request_error());
    }
    r->is_stopped = r->options->stop_at_failure;
    return take_dump(r, BENCH_DUMP_FAILURE);
}

/* Modelled on the simulator, measured on a real GPU. */
static double driver_us(const replay *r)
{
    return r->work.is_simulated ? pl_work_cost_us(&r->work)
                                : (double)pl_driver_call_ns(r->drv) / 1e3;
}

static uint64_t begin_call(const replay *r)
{
    return r->options->is_timed ? bench_ticks() : 0;
}

static void end_call(replay *r, uint64_t begin)
{
    if (r->options->is_timed) {
        bench_own_add(&r->own, begin);
    }
}

/* FNV-1a, by words. The first address of an allocator is arbitrary, so distances count. */
static void note_placement(replay *r, pleat_devptr ptr)
{
    uint64_t distance = r->last_ptr == 0 ? 0 : ptr - r->last_ptr;
    r->record->placement = (r->record->placement ^ distance) * UINT64_C(0x100000001b3);
    r->last_ptr = ptr;
}

static bool do_alloc(replay *r, const bench_event *event)
{
    void *stream = r->streams[event->stream];
    pleat_devptr ptr;
    double begin_us = driver_us(r);
    uint64_t begin = begin_call(r);
    pleat_status st = bench_request_alloc(r->instance, r->source->is_host, event->bytes, stream,
                                          &ptr);
    end_call(r, begin);
    double took_us = driver_us(r) - begin_us;
    if (!r->is_later && took_us > r->record->longest_driver_us) {
        r->record->longest_driver_us = took_us;
    }
    if (st != PLEAT_OK) {
        return note_failed_allocation(r, event);
    }
    if (!r->is_later) {
        note_placement(r, ptr);
    }
    r->live_bytes += bench_round_up(event->bytes, BENCH_BLOCK_UNIT);
    slot *s = &r->slots[event->slot];
    *s = (slot){
        .ptr = ptr, .bytes = event->bytes, .born = r->n_seen - 1, .stream = event->stream
    };
    bool is_peak = r->live_bytes >= r->source->peak_live_bytes;
    return touch(r, s) && (!is_peak || take_dump(r, BENCH_DUMP_PEAK));
}

/* Other streams' work may still run, and the block's own stream must not collide with this work. */
static bool do_free(replay *r, slot *s)
{
    if (!s->is_shared && !touch(r, s)) {
        return false;
    }
    uint64_t begin = begin_call(r);
    pleat_status st = bench_request_free(r->instance, r->source->is_host, s->ptr,
                                         r->streams[s->stream]);
    end_call(r, begin);
    s->ptr = 0;
    r->live_bytes -= bench_round_up(s->bytes, BENCH_BLOCK_UNIT);
    return st == PLEAT_OK ||
           bench_fail(r->failure, "%s, %s: the free of a live block failed: %s", r->source->name,
                      r->options->allocator, bench_request_error());
}

static bool free_what_lives(replay *r)
{
    if (!bench_lasting_end(&r->lasting)) {
        return false;
    }
    size_t n = bench_lasting_order(&r->lasting, r->order);
    for (size_t i = 0; i < n; i++) {
        if (!do_free(r, r->order[i])) {
            return false;
        }
    }
    return true;
}

static void tell_progress(const replay *r, unsigned loop, uint64_t event)
{
    if (r->options->progress) {
        double done = (double)event / (double)r->source->n_events;
        unsigned n_passes = r->options->loops + r->options->later_passes;
        bench_progress_step(r->options->progress, (loop + done) / n_passes);
    }
}

static uint64_t n_ops(const replay *r)
{
    pl_device_counts counts = pl_device_counted(r->dev);
    return counts.ops_map + counts.ops_unmap + counts.ops_alloc + counts.ops_free;
}

static bench_reading read_meters(const replay *r)
{
    return (bench_reading){ .ops = n_ops(r),
                            .syncs = pl_device_counted(r->dev).host_syncs,
                            .host_ns = r->options->is_timed ? bench_own_read(&r->own).own_ns : 0.0,
                            .driver_us = driver_us(r) - r->start_us };
}

static void record_event(replay *r)
{
    uint64_t resident_bytes = pl_device_resident_bytes(r->dev);
    if (r->timeline && bench_recorder_event(&r->recorder, r->live_bytes, resident_bytes)) {
        bench_reading now = read_meters(r);
        bench_recorder_close(&r->recorder, &now);
    }
    if (r->tracer) {
        bench_tracer_event(r->tracer, r->live_bytes, resident_bytes);
    }
}

/* Note the blocks of this moment and the map, and stop the replay. */
static bool take_moment(replay *r, const bench_event *event, uint64_t n_failed_before)
{
    bench_moment *moment = r->options->moment;
    moment->has_failed = r->record->oom_count > n_failed_before;
    moment->requested_bytes = event->bytes;
    moment->requested_stream = (int32_t)event->stream;
    moment->n_failed_before = n_failed_before;
    moment->live_bytes = r->live_bytes;
    moment->resident_bytes = pl_device_resident_bytes(r->dev);
    bench_moment_view view = { .allocator = pleat_internal_allocator(r->instance, 0),
                               .origin = &r->source->origin,
                               .granule_bytes = r->options->setup->granule_bytes,
                               .streams = r->streams,
                               .n_streams = r->n_streams,
                               .slots = r->slots,
                               .n_slots = r->source->n_slots };
    r->is_stopped = true;
    return bench_moment_take(moment, &view, r->failure);
}

static bool begin_iteration(replay *r, uint64_t number, uint64_t n_done)
{
    if (r->tracer) {
        bench_tracer_iteration(r->tracer, number);
    }
    if (r->timeline) {
        bench_recorder_iteration(&r->recorder);
    }
    return !r->options->compact || n_done == 0 || bench_record_compact(r->record, r->instance) ||
           bench_fail(r->failure, "%s, %s: %s", r->source->name, r->options->allocator,
                      bench_request_error());
}

/* *n_done counts allocations and frees of the loop, across pieces. */
static bool run_piece(replay *r, const bench_event *entries, size_t n, unsigned loop,
                      uint64_t *n_done)
{
    for (size_t i = 0; i < n && !r->is_stopped; i++) {
        const bench_event *event = &entries[i];
        if (!bench_event_is_block(event)) {
            if (event->slot == BENCH_MARK ? !begin_iteration(r, event->bytes, *n_done)
                                          : !bench_lasting_event(&r->lasting, event)) {
                return false;
            }
            continue;
        }
        if ((*n_done)++ % PROGRESS_EVENTS == 0) {
            tell_progress(r, loop, *n_done);
        }
        slot *s = &r->slots[event->slot];
        r->n_seen++;
        uint64_t n_failed = r->record->oom_count;
        if (event->bytes ? !do_alloc(r, event) : s->ptr && !do_free(r, s)) {
            return false;
        }
        if (r->timeline || r->tracer) {
            record_event(r);
        }
        if (r->options->moment && r->n_seen - 1 == r->options->moment->event &&
            !take_moment(r, event, n_failed)) {
            return false;
        }
    }
    return true;
}

static bool run_loop(replay *r, unsigned loop)
{
    bench_cursor cursor;
    if (!bench_cursor_open(r->source, &cursor, r->failure)) {
        return false;
    }
    const bench_event *entries;
    uint64_t n_done = 0;
    bool ok = true;
    while (ok && !r->is_stopped) {
        size_t n = bench_cursor_next(&cursor, &entries, r->failure);
        if (n == 0) {
            break;
        }
        ok = n != SIZE_MAX && run_piece(r, entries, n, loop, &n_done);
    }
    bench_cursor_close(&cursor);
    bool is_last = loop + 1 == r->options->loops;
    ok = ok && (!is_last || take_dump(r, BENCH_DUMP_END));
    return ok && (r->is_stopped || free_what_lives(r));
}

/* Run pass i and note the driver's time. */
static bool run_pass(replay *r, unsigned i)
{
    bench_record *record = r->record;
    double begin_us = driver_us(r);
    if (!run_loop(r, i)) {
        return false;
    }
    double us = driver_us(r) - begin_us;
    if (i == 0) {
        record->first_driver_us = us;
        return bench_record_first_peak(record, r->instance, r->failure);
    }
    record->later_driver_us += (us - record->later_driver_us) / ++record->n_later;
    return true;
}

static bool run_loops(replay *r)
{
    uint64_t before = n_ops(r);
    for (unsigned i = 0; i < r->options->loops && !r->is_stopped; i++) {
        if (!run_pass(r, i)) {
            return false;
        }
        uint64_t after = n_ops(r);
        r->record->loop_ops[i] = after - before;
        r->record->n_loops = i + 1;
        before = after;
    }
    return true;
}

static bool run_later_passes(replay *r)
{
    r->is_later = true;
    for (unsigned i = 0; i < r->options->later_passes && !r->is_stopped; i++) {
        if (!run_pass(r, r->options->loops + i)) {
            return false;
        }
    }
    return true;
}

/* Reads the results before destruction adds to them. */
static bool collect(replay *r)
{
    bench_record *record = r->record;
    if (!bench_record_read(record, r->instance, r->drv, r->failure)) {
        return false;
    }
    record->n_events = r->source->n_events * record->n_loops;
    record->driver_us = driver_us(r) - r->start_us;
    return true;
}

/* Destroy the instance while the last events' work is unfinished. If the destruction did not wait
 * for this work, that would be a hazard. */
static bool destroy_instance(replay *r, bool ok)
{
    pleat_status st = pleat_destroy(r->instance, r->is_stopped || !ok ? PLEAT_DESTROY_FORCE : 0);
    if (st != PLEAT_OK && ok) {
        ok = bench_fail(r->failure, "%s: destruction failed: %s", r->options->allocator,
                        bench_request_error());
    }
    for (uint32_t i = 0; i < r->n_streams; i++) {
        pleat_status finished = pl_work_finish(&r->work, r->streams[i]);
        if (finished != PLEAT_OK && ok) {
            ok = bench_fail(r->failure, "%s: the work on the GPU failed: %s", r->options->allocator,
                            pl_driver_last_error()->text);
        }
    }
    r->record->hazards = pl_work_n_hazards(&r->work);
    uint64_t left = pl_work_n_objects(&r->work);
    if (left && ok) {
        ok = bench_fail(r->failure, "%s: destruction left %llu driver objects",
                        r->options->allocator, (unsigned long long)left);
    }
    return ok;
}

static bool create_streams(replay *r)
{
    for (; r->n_streams < r->source->n_streams; r->n_streams++) {
        if (pl_work_stream_create(&r->work, &r->streams[r->n_streams]) != PLEAT_OK) {
            return bench_fail(r->failure, "cannot create a stream: %s",
                              pl_driver_last_error()->text);
        }
    }
    return true;
}

static void start_recorder(replay *r)
{
    uint64_t n_events = r->source->n_events * r->options->loops;
    bench_recorder_init(&r->recorder, r->timeline, n_events, r->source->peak_live_bytes);
    r->timeline->is_timed = r->options->is_timed;
}

static double traced_us(const void *context)
{
    const replay *r = context;
    return driver_us(r) - r->start_us;
}

static void start_tracer(replay *r)
{
    bench_tracer_subject subject = { .instance = r->instance,
                                     .drv = r->drv,
                                     .work = r->source->name,
                                     .allocator = r->options->allocator,
                                     .memory_bytes = r->record->memory_bytes,
                                     .n_events = r->source->n_events * r->options->loops,
                                     .driver_us = traced_us,
                                     .context = r };
    bench_tracer_begin(r->options->tracer, &subject);
    r->tracer = r->options->tracer;
}

/* Runs the loops and measures them. */
static bool run_and_measure(replay *r)
{
    /* Timing the simulator's calls takes a third of a replay. On a GPU it is the only way to know
     * the driver's time. */
    pl_driver_time_calls(r->drv,
                         r->options->is_timed || !r->work.is_simulated || r->options->tracer);
    bench_own_start(&r->own, r->drv);
    r->start_us = driver_us(r);
    if (r->timeline) {
        start_recorder(r);
    }
    if (r->options->tracer) {
        start_tracer(r);
    }
    bool ok = run_loops(r);
    if (r->tracer) {
        bench_tracer_end(r->tracer, r->live_bytes, pl_device_resident_bytes(r->dev));
        r->tracer = NULL;
    }
    if (ok) {
        bench_record_own(r->record, &r->own);
        ok = collect(r);
    }
    if (r->timeline) {
        bench_reading now = read_meters(r);
        bench_recorder_finish(&r->recorder, &now);
        r->timeline = NULL;
    }
    return ok && run_later_passes(r);
}

static bool run_with_work(replay *r)
{
    bench_dump *dump = r->options->dump;
    uint64_t n_events = r->source->n_events * r->options->loops;
    bool ok = create_streams(r) &&
              (!dump || bench_dump_start(dump, r->instance, n_events, r->failure)) &&
              run_and_measure(r);
    ok = destroy_instance(r, ok);
    for (uint32_t i = 0; i < r->n_streams; i++) {
        if (pl_work_stream_destroy(&r->work, r->streams[i]) != PLEAT_OK && ok) {
            ok = bench_fail(r->failure, "cannot destroy a stream: %s",
                            pl_driver_last_error()->text);
        }
    }
    return ok;
}

static bool run_with_instance(replay *r)
{
    r->drv = pleat_internal_driver(r->instance);
    r->dev = r->drv ? pleat_internal_device(r->instance, 0) : NULL;
    bool ok = r->dev || bench_fail(r->failure, "%s", bench_request_error());
    if (ok && pl_work_open(&r->work, pl_driver_kind_of(r->drv), 0) != PLEAT_OK) {
        ok = bench_fail(r->failure, "device 0: %s %s", pl_driver_last_error()->text,
                        pl_driver_last_error()->detail);
    }
    if (!ok) {
        pleat_status st = pleat_destroy(r->instance, PLEAT_DESTROY_FORCE);
        (void)st; /* the first failure is the one to report */
        return false;
    }
    ok = run_with_work(r);
    pl_work_close(&r->work);
    return ok;
}

bool bench_replay(const bench_work *work, const bench_replay_options *options, bench_record *out,
                  bench_failure *failure)
{
    bench_record_start(out, work, options);
    replay r = { .source = work,
                 .options = options,
                 .record = out,
                 .failure = failure,
                 .timeline = options->timeline };
    r.streams = calloc(work->n_streams, sizeof *r.streams);
    r.slots = calloc(work->n_slots, sizeof *r.slots);
    r.order = calloc(work->n_slots, sizeof *r.order);
    bench_lasting_use *uses = calloc(work->n_uses + 1, sizeof *uses);
    bool ok = r.streams && r.slots && r.order && uses;
    if (!ok) {
        bench_fail(failure, "out of host memory");
    } else {
        bench_clock_calibrated();
        ok = bench_setup_create_for(options->setup, options->allocator, work->is_host,
                                    options->memory_bytes, &r.instance, failure);
        r.lasting = (bench_lasting){
            work, options->allocator, r.instance, &r.work, r.streams, r.slots, uses, failure
        };
        ok = ok && run_with_instance(&r);
    }
    free(r.streams);
    free(r.slots);
    free(r.order);
    free(uses);
    return ok;
}
