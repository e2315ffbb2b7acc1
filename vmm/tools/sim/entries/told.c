/* told.c - pleat_sim_tell and pleat_sim_op_*: what allocators and frameworks tell (pleat_sim.h).
 *
 * The caller may hold an allocator's lock, so nothing here calls anybody. */
#include <string.h>

#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/late.h"
#include "vmm/tools/sim/work/scope.h"
#include "vmm/tools/sim/work/submit.h"

void pleat_sim_op_begin(uint64_t place, const pleat_sim_access *accesses, size_t n)
{
    pleat_sim_access *room = sim_scope_room(n);
    if (n > 0) {
        memcpy(room, accesses, n * sizeof(accesses[0]));
    }
    sim_scope_begin(place, n);
}

uint64_t pleat_sim_op_end(void)
{
    sim_scope_end();
    return sim_hazard_count();
}

/* The stream of a request, without a word if there is none: the caller may name a destroyed one. */
static sim_stream *stream_of(void *handle, uint64_t ptr)
{
    sim_context *context;
    const sim_mapping *mapping = sim_mapping_at(ptr);
    sim_stream *stream = sim_stream_peek(handle);
    if (stream != NULL || (handle != NULL && handle != (void *)CU_STREAM_LEGACY &&
                           handle != (void *)CU_STREAM_PER_THREAD)) {
        return stream;
    }
    if (sim_context_current(&context) == CU_SUCCESS &&
        (mapping == NULL || mapping->handle->device == context->device)) {
        return sim_stream_find(handle, &stream) == CU_SUCCESS ? stream : NULL;
    }
    return mapping == NULL || handle == (void *)CU_STREAM_PER_THREAD
               ? NULL
               : sim_stream_legacy(&sim.devices[mapping->handle->device].context);
}

static bool is_reached(int device, const pleat_sim_access *access)
{
    const pleat_sim_access *first;
    uint64_t any;
    const sim_mapping *mapping = sim_mapping_at(access->ptr);
    return mapping == NULL || mapping->handle->device == device ||
           sim_hazard_is_accessible(device, access, 1, &first, &any);
}

/* An operation on two devices has kernels on both. Puts the memory that this one can reach first,
 * and returns how much that is. */
static size_t sort_reached(sim_scope *scope, void *handle)
{
    const sim_stream *stream = sim.is_configured && !sim.is_forked ? stream_of(handle, 0) : NULL;
    if (stream == NULL || sim.conf.n_devices == 1) {
        return scope->n;
    }
    size_t n = 0;
    for (size_t i = 0; i < scope->n; i++) {
        pleat_sim_access access = scope->accesses[i];
        if (is_reached(stream->context->device, &access)) {
            scope->accesses[i] = scope->accesses[n];
            scope->accesses[n++] = access;
        }
    }
    return n;
}

int pleat_sim_op_kernel(void *stream)
{
    sim_scope *scope = sim_scope_self();
    sim_state_lock();
    size_t n = sort_reached(scope, stream);
    sim_state_unlock();
    return pleat_sim_work(stream, n > 0 ? scope->accesses : NULL, n);
}

static sim_block *find_live(uint64_t ptr)
{
    sim_block *block = sim_block_at(ptr);
    return block != NULL && block->is_live && block->life.ptr == ptr ? block : NULL;
}

static void begin(void *handle, uint64_t ptr, uint64_t bytes, uint64_t place)
{
    const sim_stream *stream = stream_of(handle, ptr);
    sim_block *block = find_live(ptr);
    if (block != NULL && bytes == 0) { /* the allocator has told of it; this is the framework */
        block->life.born_place = place;
        sim_scope_add(ptr, block->life.bytes);
        return;
    }
    block = sim_block_begin(ptr, bytes);
    block->life.born_call = sim.call_number;
    block->life.born_place = place != 0 ? place : sim_scope_self()->place;
    if (stream != NULL) {
        block->slot = stream->slot;
        block->life.stream_id = stream->id;
        block->is_graph_s = stream->capture != NULL;
    }
    sim_late_check_reuse(block);
    sim_scope_add(ptr, bytes);
    if (bytes == 0 && !sim_scope_self()->is_on) {
        sim_block_shade(block);
    }
}

enum { MAX_BETWEEN = 16 }; /* copies of the operation after its last kernel */

/* The operation that allocated the block has launched its kernels by now: they write all of it. */
static void extend_works_on(const sim_stream *stream, const pleat_sim_access *whole, uint64_t place)
{
    unsigned n_missed = 0;
    for (uint64_t p = stream->submitted; p > stream->finished && n_missed < MAX_BETWEEN; p--) {
        sim_op *op = sim_stream_op(stream, p);
        if (op->place != place) {
            return;
        }
        if (!sim_work_extend(op, whole->ptr, whole->bytes)) {
            n_missed++;
        } else if (sim.n_active > 1) {
            sim_hazard_check_race(stream, whole, 1, 0);
        }
    }
}

static void extend_works(const sim_block *block, uint64_t place)
{
    pleat_sim_access whole = { block->life.ptr, block->life.bytes, true };
    for (uint32_t i = 0; i < sim.n_active && place != 0; i++) {
        extend_works_on(sim.active[i], &whole, place);
    }
}

static void resize(uint64_t ptr, uint64_t bytes, uint64_t place)
{
    sim_block *block = find_live(ptr);
    if (block == NULL || block->is_sized) {
        return;
    }
    if (bytes == 0) {
        sim_block_shade(block);
        return;
    }
    sim_block_resize(block, bytes);
    extend_works(block, place);
}

static void end(uint64_t ptr, uint64_t place)
{
    sim_block *block = sim_block_at(ptr);
    if (block == NULL || block->life.ptr != ptr) {
        return;
    }
    if (block->is_live) {
        block->is_live = false;
        block->life.freed_call = sim.call_number;
        block->n_before_free = block->slot != UINT32_MAX ? sim_stream_at(block->slot)->submitted
                                                         : 0;
    }
    block->life.freed_place = place != 0 ? place : block->life.freed_place;
    sim_scope_drop(ptr);
}

/* An allocator may still wait for something else, or give the bytes to another stream only. */
static void reuse(uint64_t ptr, bool is_allocator_s)
{
    sim_block *block = sim_block_at(ptr);
    if (block != NULL && block->life.ptr == ptr && !block->is_live && !block->is_reusable) {
        block->is_reusable = true;
        if (!is_allocator_s) {
            sim_late_note_reuse(block);
        }
    }
}

static void listen(pleat_sim_told what, void *stream, uint64_t ptr, uint64_t bytes, uint64_t place)
{
    switch (what) {
    case PLEAT_SIM_TOLD_BLOCK:
        begin(stream, ptr, bytes, place);
        break;
    case PLEAT_SIM_TOLD_BYTES:
        resize(ptr, bytes, place);
        break;
    case PLEAT_SIM_TOLD_FREE:
        end(ptr, place);
        if (bytes != 0) {
            reuse(ptr, false);
        }
        break;
    case PLEAT_SIM_TOLD_REUSE:
        reuse(ptr, bytes != 0);
        break;
    case PLEAT_SIM_TOLD_JOIN:
    case PLEAT_SIM_TOLD_PART:
        sim_block_join(ptr, bytes, what == PLEAT_SIM_TOLD_JOIN);
        break;
    case PLEAT_SIM_TOLD_OWN:
        sim_scope_self()->is_own = bytes != 0;
        break;
    case PLEAT_SIM_TOLD_DISCARD:
        sim_scope_self()->is_discarding = bytes != 0;
        if (ptr != 0) {
            sim_block_regain();
        }
        break;
    }
}

bool pleat_sim_may_use(uint64_t ptr, void *handle)
{
    bool may_use = true;
    sim_state_lock();
    if (sim.is_configured && !sim.is_forked && ptr >> SIM_ADDRESS_BITS == 0) {
        const sim_stream *stream = stream_of(handle, ptr);
        const sim_block *block = sim_block_at(ptr);
        may_use = stream == NULL || block == NULL || block->life.ptr != ptr ||
                  sim_late_may_use(block, stream);
    }
    sim_state_unlock();
    return may_use;
}

bool pleat_sim_tell(pleat_sim_told what, void *stream, uint64_t ptr, uint64_t bytes, uint64_t place)
{
    sim_state_lock();
    bool listens = sim.is_configured && !sim.conf.is_untold && !sim.is_forked;
    if (listens && ptr >> SIM_ADDRESS_BITS == 0 && bytes <= UINT64_C(1) << SIM_ADDRESS_BITS) {
        listen(what, stream, ptr, bytes, place);
    }
    sim_state_unlock();
    return listens;
}
