/* verify.c - tests whether an allocator makes the device calls of a PyTorch recording.
 *
 * The device's counters give the event of a call. The simulator's log gives its size. Operation k
 * of the counters is call k of the log. */
#include "bench/measure/verify.h"

#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "bench/measure/verify_log.h"
#include "bench/run/lasting.h"
#include "vmm/tools/measure/measure_work.h"

typedef struct calls {
    bench_verify_call *of;
    size_t n;
    size_t capacity;
} calls;

typedef struct verify {
    const bench_work *source;
    const bench_recording *recording;
    const char *allocator;
    bench_verify_result *out;
    bench_failure *failure;
    pleat instance;
    pl_device *dev;
    pl_driver *drv;
    pl_work work;
    void **streams;
    uint32_t n_streams;
    bench_slot *slots;
    bench_lasting lasting;
    calls recorded;
    calls made; /* of all events, those before the recording included */
    size_t n_early;
    size_t next_call; /* index into the recording */
} verify;

const char *bench_verify_allocator(const bench_snapshot *snapshot)
{
    return snapshot->is_expandable || snapshot->has_mappings ? "torch-expandable" : "torch-native";
}

static bool complain(const verify *v, const char *what)
{
    const pleat_error *error = pleat_last_error();
    const char *why = error->text && error->text[0] ? error->text
                                                    : pleat_status_text(error->status);
    return bench_fail(v->failure, "%s, %s: %s: %s", v->source->name, v->allocator, what, why);
}

static bool add_call(const verify *v, calls *list, bench_verify_call call)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        bench_verify_call *of = realloc(list->of, capacity * sizeof *of);
        if (!of) {
            return bench_fail(v->failure, "out of host memory");
        }
        list->of = of;
        list->capacity = capacity;
    }
    list->of[list->n++] = call;
    return true;
}

static bool is_given_back(uint8_t action)
{
    return action == BENCH_SNAPSHOT_SEGMENT_FREE || action == BENCH_SNAPSHOT_SEGMENT_UNMAP;
}

/* Repeat the recorded actions on the device just before `event`. */
static bool follow_recorded(verify *v, uint64_t event)
{
    const bench_recording *r = v->recording;
    uint8_t wanted = v->out->is_mapping ? BENCH_SNAPSHOT_SEGMENT_MAP : BENCH_SNAPSHOT_SEGMENT_ALLOC;
    bool was_trimmed = false;
    for (; v->next_call < r->n_calls && r->calls[v->next_call].n_events == event; v->next_call++) {
        const bench_recorded_call *call = &r->calls[v->next_call];
        if (is_given_back(call->action)) {
            if (!was_trimmed && pleat_device_trim(v->instance, 0, 0, true, NULL) != PLEAT_OK) {
                return complain(v, "trimming failed");
            }
            was_trimmed = true;
            continue;
        }
        if (call->action != wanted) {
            v->out->n_other++;
            continue;
        }
        bench_verify_call recorded = { .bytes = call->bytes, .event = event - r->n_before_events };
        if (!add_call(v, &v->recorded, recorded)) {
            return false;
        }
    }
    return true;
}

static uint64_t n_ops(const verify *v)
{
    pl_device_counts counts = pl_device_counted(v->dev);
    return v->out->is_mapping ? counts.ops_map : counts.ops_alloc;
}

static bool run_event(verify *v, const bench_event *event)
{
    bench_slot *s = &v->slots[event->slot];
    if (event->bytes == 0) {
        return pleat_block_free(v->instance, 0, s->ptr, v->streams[s->stream]) == PLEAT_OK ||
               complain(v, "a free failed");
    }
    *s = (bench_slot){ .bytes = event->bytes, .stream = event->stream };
    return pleat_block_alloc(v->instance, 0, event->bytes, v->streams[s->stream], &s->ptr) ==
               PLEAT_OK ||
           complain(v, "an allocation failed");
}

static bool run_events(verify *v)
{
    const bench_tape *tape = &v->source->tape;
    uint64_t n_before = v->recording->n_before_events;
    uint64_t i = 0; /* the number of the event */
    for (size_t k = 0; k < tape->n_entries; k++) {
        const bench_event *event = &tape->entries[k];
        if (!bench_event_is_block(event)) {
            if (!bench_lasting_event(&v->lasting, event)) {
                return false;
            }
            continue;
        }
        if (i == n_before) {
            v->n_early = v->made.n;
        }
        if (!follow_recorded(v, i)) {
            return false;
        }
        uint64_t before = n_ops(v);
        if (!run_event(v, event)) {
            return false;
        }
        for (uint64_t n = n_ops(v); n > before; n--) {
            bench_verify_call made = { .event = i < n_before ? 0 : i - n_before };
            if (!add_call(v, &v->made, made)) {
                return false;
            }
        }
        i++;
    }
    v->n_early = i <= n_before ? v->made.n : v->n_early;
    return follow_recorded(v, i);
}

static bool read_sizes(verify *v)
{
    uint64_t *bytes = calloc(v->made.n + 1, sizeof *bytes);
    if (!bytes) {
        return bench_fail(v->failure, "out of host memory");
    }
    pl_entry entry = v->out->is_mapping ? PL_CU_mem_set_access : PL_CU_mem_alloc;
    bool ok = bench_verify_log_read(v->work.drv, entry, bytes, v->made.n, v->failure);
    for (size_t i = 0; i < v->made.n; i++) {
        v->made.of[i].bytes = bytes[i];
    }
    free(bytes);
    return ok;
}

static void compare(verify *v)
{
    bench_verify_result *out = v->out;
    const bench_verify_call *recorded = v->recorded.of;
    const bench_verify_call *made = v->made.of ? v->made.of + v->n_early : NULL;
    size_t n_recorded = v->recorded.n;
    size_t n_made = v->made.n - v->n_early;
    size_t n = n_recorded < n_made ? n_recorded : n_made;
    size_t first = 0;
    size_t last = 0;
    while (first < n && recorded[first].bytes == made[first].bytes) {
        first++;
    }
    out->has_difference = first < n_recorded || first < n_made;
    while (out->has_difference && last < n - first &&
           recorded[n_recorded - 1 - last].bytes == made[n_made - 1 - last].bytes) {
        last++;
    }
    if (first < n_recorded) {
        out->recorded = recorded[first];
    }
    if (first < n_made) {
        out->made = made[first];
    }
    out->n_recorded = n_recorded;
    out->n_made = n_made;
    out->n_first = first;
    out->n_last = last;
}

static bool run_with_work(verify *v)
{
    for (; v->n_streams < v->source->n_streams; v->n_streams++) {
        if (pl_work_stream_create(&v->work, &v->streams[v->n_streams]) != PLEAT_OK) {
            return bench_fail(v->failure, "cannot create a stream: %s",
                              pl_driver_last_error()->text);
        }
    }
    return run_events(v) && read_sizes(v);
}

static bool run_with_instance(verify *v)
{
    v->drv = pleat_internal_driver(v->instance);
    v->dev = v->drv ? pleat_internal_device(v->instance, 0) : NULL;
    bool ok = v->dev || bench_fail(v->failure, "%s, %s: %s", v->source->name, v->allocator,
                                   pleat_last_error()->text);
    if (ok && pl_work_open(&v->work, pl_driver_kind_of(v->drv), 0) != PLEAT_OK) {
        ok = bench_fail(v->failure, "device 0: %s %s", pl_driver_last_error()->text,
                        pl_driver_last_error()->detail);
    }
    bool is_open = ok;
    ok = ok && run_with_work(v);
    if (pleat_destroy(v->instance, PLEAT_DESTROY_FORCE) != PLEAT_OK && ok) {
        ok = complain(v, "destruction failed");
    }
    for (uint32_t i = 0; i < v->n_streams; i++) {
        if (pl_work_stream_destroy(&v->work, v->streams[i]) != PLEAT_OK && ok) {
            ok = bench_fail(v->failure, "cannot destroy a stream: %s",
                            pl_driver_last_error()->text);
        }
    }
    if (is_open) {
        pl_work_close(&v->work);
    }
    return ok;
}

bool bench_verify(const bench_work *work, const bench_snapshot *snapshot,
                  const bench_recording *recording, const bench_setup *setup, const char *allocator,
                  bench_verify_result *out, bench_failure *failure)
{
    *out = (bench_verify_result){
        .device = snapshot->device,
        .is_mapping = strcmp(allocator, "torch-expandable") == 0,
        .n_before = recording->n_before,
        .n_events = work->n_events - recording->n_before_events,
    };
    snprintf(out->allocator, sizeof out->allocator, "%s", allocator);
    verify v = {
        .source = work,
        .recording = recording,
        .allocator = allocator,
        .out = out,
        .failure = failure,
    };
    v.streams = calloc(work->n_streams, sizeof *v.streams);
    v.slots = calloc(work->n_slots, sizeof *v.slots);
    bench_lasting_use *uses = calloc(work->n_uses + 1, sizeof *uses);
    bool ok = v.streams && v.slots && uses;
    if (!ok) {
        bench_fail(failure, "out of host memory");
    } else {
        ok = bench_setup_create(setup, allocator, 0, &v.instance, failure);
        v.lasting = (bench_lasting){ work,      allocator, v.instance, &v.work,
                                     v.streams, v.slots,   uses,       failure };
        ok = ok && run_with_instance(&v);
    }
    if (ok) {
        compare(&v);
    }
    free(v.streams);
    free(v.slots);
    free(uses);
    free(v.recorded.of);
    free(v.made.of);
    return ok;
}
