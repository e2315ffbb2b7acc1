/* late.c - see late.h. Blocks of untold size, and bytes outside of blocks, are taken as usable.
 *
 * A free under another stream's work is no mistake yet: the program may order the streams before
 * its next request. So such a free is remembered as a doubt, and the next request on the block's
 * stream turns the doubt into a hazard, unless that request gets the very bytes: then the rule for
 * races speaks when they are written. */
#include "vmm/tools/sim/work/late.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/scope.h"

enum { MAX_DOUBTS = 256 };

typedef struct doubt {
    sim_block_life life;
    uint32_t owner; /* slots */
    uint32_t user;
    uint64_t position; /* of the user's work */
    uint64_t call;
    uint64_t place;
    uint64_t user_id;
} doubt;

static doubt doubts[MAX_DOUBTS]; /* lock: the newest ones */
static size_t n_doubts;          /* lock */

typedef unsigned long long ull;

/* ---- stories --------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(pleat_sim_hazard *hazard, const char *format,
                                                      ...)
{
    size_t n = strlen(hazard->text);
    va_list args;
    va_start(args, format);
    vsnprintf(hazard->text + n, sizeof(hazard->text) - n, format, args);
    va_end(args);
}

static void add_life(pleat_sim_hazard *hazard, const sim_block_life *life)
{
    hazard->block_ptr = life->ptr;
    hazard->block_bytes = life->bytes;
    hazard->born_place = life->born_place;
    hazard->freed_place = life->freed_place;
    add(hazard, "the block of %llu bytes at 0x%llx, allocated after call %llu", (ull)life->bytes,
        (ull)life->ptr, (ull)life->born_call);
    if (life->stream_id != 0) {
        add(hazard, " for stream %llu", (ull)life->stream_id);
    }
}

static void add_end(pleat_sim_hazard *hazard, const sim_block *block)
{
    const sim_block_life *life = &block->life;
    add(hazard, ", was freed after call %llu, %llu calls ago", (ull)life->freed_call,
        (ull)(sim.call_number - life->freed_call));
    if (block->slot != UINT32_MAX && sim_stream_at(block->slot)->id == life->stream_id) {
        add(hazard, "; its stream has had %llu pieces of work since",
            (ull)(sim_stream_at(block->slot)->submitted - block->n_before_free));
    }
}

void sim_late_explain(pleat_sim_hazard *hazard, const pleat_sim_access *access)
{
    const sim_block *block = sim_block_from(access->ptr);
    if (block == NULL || block->start >= access->ptr + access->bytes) {
        return;
    }
    uint64_t end = access->ptr + access->bytes;
    if (block->is_live && block->is_sized && block->start <= access->ptr &&
        sim_block_end(block) < end) {
        hazard->kind = PLEAT_SIM_BEYOND_BLOCK;
        add(hazard, ", %llu bytes beyond the end of ", (ull)(end - sim_block_end(block)));
        add_life(hazard, &block->life);
        return;
    }
    add(hazard, ": ");
    add_life(hazard, &block->life);
    if (block->is_live) {
        add(hazard, ", lives without its memory: it sleeps; wake it before its next use");
    } else {
        add_end(hazard, block);
        add(hazard, ", and its memory is gone; free it after its last use");
    }
}

void sim_late_explain_race(pleat_sim_hazard *hazard, const pleat_sim_access *access, uint64_t call)
{
    const sim_block *block = sim_block_at(access->ptr);
    if (block == NULL) {
        return;
    }
    const sim_block_life *life = call > block->life.born_call ? &block->life : &block->before;
    if (life == &block->life && block->is_live) {
        hazard->block_ptr = life->ptr;
        hazard->block_bytes = life->bytes;
        hazard->born_place = life->born_place;
        return;
    }
    if (life->bytes == 0 || call <= life->born_call) {
        return; /* the bytes have changed hands more than once since */
    }
    add(hazard, ": ");
    add_life(hazard, life);
    add(hazard,
        ", was freed after call %llu while that stream used it; record the stream before the free, "
        "or wait for it",
        (ull)life->freed_call);
}

/* ---- work ------------------------------------------------------------------------------------ */

static pleat_sim_hazard *begin(pleat_sim_hazard_kind kind, const sim_stream *stream,
                               const pleat_sim_access *access, const char *what)
{
    pleat_sim_hazard *hazard = sim_hazard_add(
        kind, access->ptr, access->bytes, "work on stream %llu %s %llu bytes at 0x%llx%s",
        (ull)stream->id, access->is_write ? "writes" : "reads", (ull)access->bytes,
        (ull)access->ptr, what);
    hazard->stream = stream->id;
    return hazard;
}

static void find_freed(const sim_stream *stream, const sim_task *task,
                       const pleat_sim_access *access, const sim_block *block)
{
    pleat_sim_hazard *hazard = begin(PLEAT_SIM_LATE_USE, stream, access, ": ");
    hazard->other_place = task->place;
    if (block->is_live) { /* another one than in the graph */
        add_life(hazard, &block->before);
        add(hazard, ", which a graph uses, is gone; keep it as long as the graph is launched");
        return;
    }
    add_life(hazard, &block->life);
    add_end(hazard, block);
    add(hazard, "; free it after its last use");
}

static void find_beyond(const sim_stream *stream, const pleat_sim_access *access,
                        const sim_block *block)
{
    pleat_sim_hazard *hazard = begin(PLEAT_SIM_BEYOND_BLOCK, stream, access, "");
    add(hazard, ", %llu bytes beyond the end of ",
        (ull)(access->ptr + access->bytes - sim_block_end(block)));
    add_life(hazard, &block->life);
    add(hazard, "; allocate as many bytes as the work touches");
}

static void find_lost(const sim_stream *stream, const pleat_sim_access *access,
                      const sim_block *block)
{
    pleat_sim_hazard *hazard = begin(PLEAT_SIM_NO_CONTENTS, stream, access, ": ");
    add_life(hazard, &block->life);
    add(hazard,
        ", slept without its contents, and nothing was written since; fill it first, or keep "
        "the contents when it goes to sleep");
}

/* Does the thread's operation hold a block of unknown size that may reach to there? */
static bool is_in_making(uint64_t ptr)
{
    const sim_scope *scope = sim_scope_self();
    uint64_t nearest = 0;
    for (size_t i = 0; i < scope->n; i++) {
        const pleat_sim_access *it = &scope->accesses[i];
        bool is_unsized = it->is_write && it->bytes == 1;
        nearest = is_unsized && it->ptr <= ptr && it->ptr > nearest ? it->ptr : nearest;
    }
    const sim_block *it = nearest != 0 ? sim_block_at(nearest) : NULL;
    if (it == NULL || it->is_sized) {
        return false;
    }
    for (it = sim_block_next(it); it != NULL && it->start <= ptr; it = sim_block_next(it)) {
        if (it->is_live) {
            return false;
        }
    }
    return true;
}

/* A graph may use what lived when it was captured as long as the allocator keeps it, and what was
 * allocated in captures. */
static bool is_gone(const sim_block *block, const sim_task *task, size_t i)
{
    if (task->serials == NULL) {
        return !block->is_live;
    }
    bool is_another = block->serial != task->serials[i];
    return task->serials[i] != 0 && (is_another || (!block->is_live && block->is_reusable));
}

/* The first block of the access with which something is wrong. */
static bool check_blocks(const sim_stream *stream, const sim_task *task, size_t i)
{
    const pleat_sim_access *access = &task->accesses[i];
    uint64_t end = access->ptr + access->bytes;
    bool is_joined = false;
    for (sim_block *it = sim_block_from(access->ptr); it != NULL && it->start < end;
         it = sim_block_next(it)) {
        if (is_gone(it, task, i) && (task->serials != NULL || !is_in_making(access->ptr))) {
            find_freed(stream, task, access, it);
            return true;
        }
        if (it->has_lost && !access->is_write) {
            find_lost(stream, access, it);
            return true;
        }
        it->has_lost = it->has_lost && !access->is_write;
        bool passes = it->is_live && it->start <= access->ptr && it->is_sized &&
                      sim_block_end(it) < end;
        is_joined = is_joined || (passes && sim_block_is_joined(access->ptr, access->bytes));
        if (passes && !is_joined && task->serials == NULL) {
            find_beyond(stream, access, it);
            return true;
        }
    }
    return false;
}

bool sim_late_check(const sim_stream *stream, const sim_task *task)
{
    bool is_own = sim_scope_self()->is_own;
    for (size_t i = 0; i < task->n && sim_block_any(); i++) {
        const pleat_sim_access *access = &task->accesses[i];
        uint64_t limit = UINT64_C(1) << SIM_ADDRESS_BITS;
        if (access->bytes == 0 || access->ptr >= limit || access->bytes > limit - access->ptr) {
            continue;
        }
        if (!is_own && check_blocks(stream, task, i)) {
            return true;
        }
        for (sim_block *it = is_own ? sim_block_from(access->ptr) : NULL;
             it != NULL && it->start < access->ptr + access->bytes; it = sim_block_next(it)) {
            it->has_lost = it->has_lost && !access->is_write;
        }
    }
    return false;
}

void sim_late_note_blocks(const sim_task *task, uint64_t *serials)
{
    for (size_t i = 0; i < task->n; i++) {
        const sim_block *block = sim_block_at(task->accesses[i].ptr);
        bool is_foreign = block != NULL && block->is_live && !block->is_graph_s;
        serials[i] = is_foreign ? block->serial : 0;
    }
}

/* ---- who has used a block -------------------------------------------------------------------- */

static bool is_user(const sim_block *block, uint64_t id)
{
    for (unsigned i = 0; i < block->n_users && i < SIM_BLOCK_USERS; i++) {
        if (block->users[i] == id) {
            return true;
        }
    }
    return block->n_users > SIM_BLOCK_USERS;
}

static void add_user(sim_block *block, uint64_t id)
{
    if (is_user(block, id)) {
        return;
    }
    if (block->n_users < SIM_BLOCK_USERS) {
        block->users[block->n_users] = id;
    }
    block->n_users++;
}

void sim_late_note_user(sim_stream *stream, const sim_task *task)
{
    if (task->kind == SIM_TASK_WORK && task->n == 0) {
        stream->blind_call = sim.call_number;
    }
    for (size_t i = 0; i < task->n && sim_block_any(); i++) {
        const pleat_sim_access *access = &task->accesses[i];
        uint64_t limit = UINT64_C(1) << SIM_ADDRESS_BITS;
        if (access->bytes == 0 || access->ptr >= limit || access->bytes > limit - access->ptr) {
            continue;
        }
        for (sim_block *it = sim_block_from(access->ptr);
             it != NULL && it->start < access->ptr + access->bytes; it = sim_block_next(it)) {
            add_user(it, stream->id);
        }
    }
}

bool sim_late_may_use(const sim_block *block, const sim_stream *stream)
{
    bool is_told = block->is_sized && !block->is_graph_s;
    return !is_told || stream->slot == block->slot || stream->capture != NULL ||
           stream->blind_call >= block->life.born_call || is_user(block, stream->id);
}

/* ---- frees under work ------------------------------------------------------------------------ */

static void put(const doubt *it)
{
    if (n_doubts == MAX_DOUBTS) {
        memmove(doubts, doubts + 1, (MAX_DOUBTS - 1) * sizeof(doubts[0]));
        n_doubts--;
    }
    doubts[n_doubts++] = *it;
}

void sim_late_note_reuse(const sim_block *block)
{
    bool is_pooled = (sim_space_entry(&sim.space, block->start) & SIM_GRANULE_POOLED) != 0;
    if (block->slot == UINT32_MAX || sim.n_active == 0 ||
        is_pooled) { /* pools know their streams */
        return;
    }
    sim_stream *owner = sim_stream_at(block->slot);
    pleat_sim_access range = { block->start, sim_block_end(block) - block->start, true };
    sim_use use;
    if (owner->id != block->life.stream_id || owner->capture != NULL) {
        return;
    }
    sim_stream_join_default(owner);
    (void)sim_stream_passed(&owner->deps);
    if (!sim_hazard_find_use(owner, &range, &use) || use.op->call <= block->life.born_call) {
        return; /* or of a block that had the bytes before */
    }
    put(&(doubt){ .life = block->life,
                  .owner = owner->slot,
                  .user = use.stream->slot,
                  .position = use.position,
                  .call = use.op->call,
                  .place = use.op->place,
                  .user_id = use.stream->id });
}

static bool is_over(const doubt *it)
{
    const sim_stream *owner = sim_stream_at(it->owner);
    return sim_stream_at(it->user)->finished >= it->position || owner->id != it->life.stream_id ||
           sim_clock_get(owner->deps, it->user) >= it->position;
}

static void find_early(const doubt *it)
{
    pleat_sim_hazard *hazard = sim_hazard_add(PLEAT_SIM_EARLY_FREE, it->life.ptr, it->life.bytes,
                                              "work of call %llu on stream %llu still uses the "
                                              "bytes that the next request on stream %llu "
                                              "may get: ",
                                              (ull)it->call, (ull)it->user_id,
                                              (ull)it->life.stream_id);
    add_life(hazard, &it->life);
    add(hazard,
        ", was freed after call %llu; record the stream before the free, or let the block's stream "
        "wait for it",
        (ull)it->life.freed_call);
    hazard->stream = it->life.stream_id;
    hazard->other_stream = it->user_id;
    hazard->other_place = it->place;
    hazard->other_call = it->call;
}

void sim_late_check_reuse(const sim_block *block)
{
    size_t n_kept = 0;
    if (n_doubts > 0 && block->slot != UINT32_MAX) {
        sim_stream *owner = sim_stream_at(block->slot);
        sim_stream_join_default(owner);
        (void)sim_stream_passed(&owner->deps);
    }
    for (size_t i = 0; i < n_doubts; i++) {
        const doubt *it = &doubts[i];
        bool is_same = it->life.ptr < sim_block_end(block) &&
                       block->start < it->life.ptr + it->life.bytes;
        if (is_same || is_over(it)) {
            continue;
        }
        if (it->owner == block->slot) {
            find_early(it);
            continue;
        }
        doubts[n_kept++] = *it;
    }
    n_doubts = n_kept;
}

void sim_late_fini(void)
{
    n_doubts = 0;
}
