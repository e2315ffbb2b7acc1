/* sim_work.c - operations, with submission, depth, dependencies, and the order of finishing.
 *
 * Upholds S1 to S4 (sim_stream.h). An operation finishes when `depth` later operations have been
 * submitted to its device and its dependencies have finished. Dependencies were always submitted
 * earlier, so a wait never deadlocks. Only dependencies on another device can be late; the waiting
 * streams are then marked blocked, and tried again when something has finished. */
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/late.h"
#include "vmm/tools/sim/work/scope.h"
#include "vmm/tools/sim/work/sim_stream.h"

void sim_work_init(sim_device *device)
{
    uint64_t n = 1;
    while (n < sim.conf.depth + 1) {
        n *= 2;
    }
    device->order = sim_new(n * sizeof(device->order[0]));
    device->order_mask = n - 1;
}

static void activate(sim_stream *stream)
{
    static uint32_t room;
    if (sim.active == NULL || sim.n_active == room) {
        room = sim.active == NULL ? 16 : 2 * room;
        sim.active = sim_grow(sim.active, room * sizeof(sim_stream *));
    }
    stream->active_index = sim.n_active;
    sim.active[sim.n_active++] = stream;
}

static void deactivate(sim_stream *stream)
{
    sim_stream *last = sim.active[--sim.n_active];
    sim.active[stream->active_index] = last;
    last->active_index = stream->active_index;
}

static void set_blocked(sim_stream *stream, bool is_blocked)
{
    if (stream->is_blocked != is_blocked) {
        stream->is_blocked = is_blocked;
        sim.n_blocked += is_blocked ? 1U : UINT32_MAX;
    }
}

static void grow_ring(sim_stream *stream)
{
    uint64_t n = stream->n_ring == 0 ? 64 : 2 * stream->n_ring;
    sim_op *ring = sim_new(n * sizeof(ring[0]));
    for (uint64_t p = stream->finished + 1; p <= stream->submitted; p++) {
        ring[p & (n - 1)] = *sim_stream_op(stream, p);
    }
    free(stream->ring);
    stream->ring = ring;
    stream->n_ring = n;
    stream->ring_mask = n - 1;
}

/* The accesses of an operation. A single access is written to `one`. */
static const pleat_sim_access *accesses_of(const sim_op *op, pleat_sim_access *one, size_t *n)
{
    if (op->task != NULL) {
        *n = op->task->n;
        return op->task->accesses;
    }
    *one = (pleat_sim_access){ op->begin, op->end - op->begin, op->is_write };
    *n = op->begin < op->end;
    return one;
}

/* Are its addresses still accessible? A hazard that was recorded once is not recorded again. */
static bool check_at_end(const sim_stream *stream, sim_op *op)
{
    pleat_sim_access one;
    const pleat_sim_access *first;
    uint64_t any;
    size_t n;
    if (op->is_driver_s || (op->access_epoch == sim.access_epoch && !op->is_reported)) {
        return true;
    }
    const pleat_sim_access *accesses = accesses_of(op, &one, &n);
    if (sim_hazard_is_accessible(stream->context->device, accesses, n, &first, &any)) {
        return true;
    }
    if (!op->is_reported) {
        sim_hazard_add(PLEAT_SIM_UNMAPPED_ACCESS, first->ptr, first->bytes,
                       "work of call %llu on stream 0x%llx ends on bytes that lost their access: "
                       "freed, or put to sleep, before it was over?",
                       (unsigned long long)op->call, (unsigned long long)(uintptr_t)stream->handle);
    }
    return false;
}

/* Finishes the oldest unfinished operation. */
static void finish_front(sim_stream *stream)
{
    sim_op *op = sim_stream_op(stream, stream->finished + 1);
    sim_task *task = op->task;
    bool is_accessible = check_at_end(stream, op);
    sim_clock_unref(op->deps);
    stream->finished++;
    sim.n_unfinished--;
    if (task != NULL) {
        if (is_accessible) {
            sim_task_run(task);
        }
        sim_task_free(task);
    }
    if (sim_stream_is_idle(stream)) {
        set_blocked(stream, false);
        deactivate(stream);
        sim_stream_settle(stream);
    }
}

/* Finish due work without unfinished dependencies. */
static void finish_ready(sim_stream *stream)
{
    while (!sim_stream_is_idle(stream)) {
        uint64_t position = stream->finished + 1;
        sim_op *op = sim_stream_op(stream, position);
        if (op->lasts || (op->is_counted && position > stream->due)) {
            set_blocked(stream, false);
            break;
        }
        if (!sim_stream_passed(&op->deps)) {
            set_blocked(stream, true);
            break;
        }
        sim.has_aged = sim.has_aged || (op->is_counted && op->begin < op->end);
        finish_front(stream);
    }
}

/* Something has finished: retries blocked streams until none makes progress. */
static void retry_blocked(void)
{
    bool goes_on = true;
    while (sim.n_blocked > 0 && goes_on) {
        uint64_t before = sim.n_unfinished;
        for (uint32_t i = sim.n_active; i-- > 0;) {
            if (sim.active[i]->is_blocked) {
                finish_ready(sim.active[i]);
            }
        }
        goes_on = sim.n_unfinished != before;
    }
}

/* Adds one submission to the device's order. The submission `depth` earlier becomes due. */
static void enter_order(sim_device *device, uint32_t slot, uint64_t position)
{
    uint64_t depth = sim.conf.depth;
    device->order[device->n_submitted & device->order_mask] = (sim_submission){ slot, position };
    device->n_submitted++;
    if (device->n_submitted <= depth) {
        return;
    }
    sim_submission *due = &device->order[(device->n_submitted - 1 - depth) & device->order_mask];
    if (due->slot == UINT32_MAX) {
        return;
    }
    sim_stream *stream = sim_stream_at(due->slot);
    if (stream->due < due->position) {
        stream->due = due->position;
    }
    finish_ready(stream);
}

/* Sets the hull of the task's accesses. */
static void set_hull(sim_op *op, const sim_task *task)
{
    for (size_t i = 0; i < task->n; i++) {
        const pleat_sim_access *it = &task->accesses[i];
        if (it->bytes == 0) {
            continue;
        }
        uint64_t end = it->ptr + it->bytes < it->ptr ? UINT64_MAX : it->ptr + it->bytes;
        op->begin = op->begin == op->end || it->ptr < op->begin ? it->ptr : op->begin;
        op->end = end > op->end ? end : op->end;
        op->is_write |= it->is_write;
    }
}

static void check_at_submission(const sim_stream *stream, const sim_task *task, sim_op *op)
{
    const pleat_sim_access *first;
    uint64_t any;
    if (task->kind == SIM_TASK_POOL_ALLOC || task->kind == SIM_TASK_POOL_RETIRE ||
        task->kind == SIM_TASK_LAUNCH_END) {
        op->is_driver_s = true;
        return;
    }
    if (task->is_peer_s) {
        op->is_driver_s = true; /* the driver goes through both devices */
        any = 0;
    } else if (!sim_hazard_is_usable(stream->context->device, task->accesses, task->n, &first,
                                     &any)) {
        bool is_freed = (any & SIM_GRANULE_POOLED) != 0;
        pleat_sim_hazard *hazard = sim_hazard_add(
            PLEAT_SIM_UNMAPPED_ACCESS, first->ptr, first->bytes,
            "work on stream 0x%llx touches bytes %s", (unsigned long long)(uintptr_t)stream->handle,
            is_freed ? "that are no live block of a pool: freed before?"
                     : "without mapping or access: freed or asleep before, or beyond the block?");
        hazard->stream = stream->id;
        sim_late_explain(hazard, first);
        op->is_reported = true;
    } else if (sim_block_any()) {
        (void)sim_late_check(stream, task);
    }
    if (sim.n_active > 1 || (sim.n_active == 1 && sim.active[0] != stream)) {
        sim_hazard_check_race(stream, task->accesses, task->n, any);
    }
    if ((any & SIM_GRANULE_ALIASED) != 0) {
        sim_hazard_note_use(task->accesses, task->n);
    }
}

/* Does its end have any effect, besides time going on? */
static bool has_effect(const sim_task *task)
{
    if (task->kind == SIM_TASK_WORK || task->kind == SIM_TASK_POOL_ALLOC) {
        return task->n > 1;
    }
    return task->n > 1 || task->kind == SIM_TASK_FREE || task->kind == SIM_TASK_POOL_RETIRE ||
           task->kind == SIM_TASK_LAUNCH_END || sim.conf.has_memory;
}

void sim_work_submit(sim_stream *stream, const sim_task *task, bool is_counted)
{
    sim_op op = {
        .call = sim.call_number,
        .place = task->place != 0 ? task->place : sim_scope_self()->place,
        .access_epoch = sim.access_epoch,
        .is_counted = is_counted,
        .lasts = task->lasts,
    };
    sim_stream_join_default(stream);
    (void)sim_stream_passed(&stream->deps);
    if (sim.worker != stream->id) {
        sim.worker = sim.worker == 0 ? stream->id : UINT64_MAX;
    }
    set_hull(&op, task);
    sim_late_note_user(stream, task);
    check_at_submission(stream, task, &op);
    op.deps = sim_clock_ref(stream->deps);
    op.task = has_effect(task) ? sim_task_copy(task) : NULL;
    if (stream->submitted - stream->finished == stream->n_ring) {
        grow_ring(stream);
    }
    if (sim_stream_is_idle(stream)) {
        activate(stream);
    }
    stream->submitted++;
    sim.n_unfinished++;
    *sim_stream_op(stream, stream->submitted) = op;
    if (is_counted) {
        enter_order(&sim.devices[stream->context->device], stream->slot, stream->submitted);
    } else {
        finish_ready(stream);
    }
    retry_blocked();
}

/* Returns whether more is needed than before. */
static bool need(uint32_t slot, uint64_t position)
{
    sim_stream *stream = sim_stream_at(slot);
    if (position <= stream->finished || position <= stream->needed) {
        return false;
    }
    stream->needed = position;
    return true;
}

static bool need_clock(const sim_clock *clock)
{
    bool is_more = false;
    for (uint32_t i = 0; clock != NULL && i < clock->n; i++) {
        is_more |= need(clock->ticks[i].slot, clock->ticks[i].position);
    }
    return is_more;
}

/* Adds what the needed operations depend on. */
static void need_dependencies(void)
{
    bool is_more = true;
    while (is_more) {
        is_more = false;
        for (uint32_t i = 0; i < sim.n_active; i++) {
            sim_stream *stream = sim.active[i];
            if (stream->walked < stream->finished) {
                stream->walked = stream->finished;
            }
            while (stream->walked < stream->needed) {
                stream->walked++;
                is_more |= need_clock(sim_stream_op(stream, stream->walked)->deps);
            }
        }
    }
}

static void forget_needs(void)
{
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream_at(slot)->needed = 0;
        sim_stream_at(slot)->walked = 0;
    }
}

static void finish_needed(void)
{
    need_dependencies();
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        for (uint32_t i = sim.n_active; i-- > 0;) {
            sim_stream *stream = sim.active[i];
            while (stream->finished < stream->needed &&
                   sim_stream_passed(&sim_stream_op(stream, stream->finished + 1)->deps)) {
                finish_front(stream);
                goes_on = true;
            }
        }
    }
    forget_needs();
    for (uint32_t i = sim.n_active; i-- > 0;) {
        finish_ready(sim.active[i]);
    }
    retry_blocked();
}

/* Something is needed, so a synchronisation would wait. */
static bool wait_for_needed(void)
{
    if (sim.conf.is_wait_refused) {
        forget_needs();
        return false;
    }
    finish_needed();
    return true;
}

bool sim_work_finish_until(sim_stream *stream, uint64_t position, const sim_clock *clock)
{
    bool is_needed = need(stream->slot, position);
    is_needed |= need_clock(clock);
    return !is_needed || wait_for_needed();
}

bool sim_work_finish_clock(const sim_clock *clock)
{
    return !need_clock(clock) || wait_for_needed();
}

void sim_work_end(sim_stream *stream, uint64_t position)
{
    if (need(stream->slot, position)) {
        finish_needed();
    }
}

void sim_work_finish_all(void)
{
    for (uint32_t i = 0; i < sim.n_active; i++) {
        (void)need(sim.active[i]->slot, sim.active[i]->submitted);
    }
    if (sim.n_active > 0) {
        finish_needed();
    }
}

void sim_work_advance(sim_device *device, uint64_t n)
{
    for (uint64_t i = 0; i < n && i <= sim.conf.depth; i++) {
        enter_order(device, UINT32_MAX, 0);
    }
    retry_blocked();
}
