/* hazard.c - finds accesses without mapping or rights, unmaps under work, and races.
 *
 * Two pieces of work race when they touch common physical bytes, at least one writes, and they are
 * not ordered. Finished work cannot overlap, so the check looks at unfinished work of other
 * streams, not ordered earlier by the submitting stream's clock. Comparing addresses is enough
 * unless a touched granule is aliased. Then the other mappings of the handle are compared too, if
 * used since the oldest unfinished work (last_call). */
#include "vmm/tools/sim/work/hazard.h"

#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/late.h"

/* For granules with the end of an allocation. False if an access runs past the end. */
static bool ends_within(const pleat_sim_access *access)
{
    uint64_t end = access->ptr + access->bytes;
    for (uint64_t at = access->ptr; at < end;) {
        uint64_t entry = sim_space_entry(&sim.space, at);
        const sim_mapping *mapping = sim_pool_at(&sim.mappings,
                                                 (uint32_t)(entry & SIM_GRANULE_INDEX));
        if ((entry & SIM_GRANULE_PARTIAL) != 0 && end > mapping->ptr + mapping->bytes) {
            return false;
        }
        at = (at | (sim.conf.granule_bytes - 1)) + 1;
    }
    return true;
}

/* Is the access non-empty and within the range of addresses? */
static bool is_sane(const pleat_sim_access *access)
{
    uint64_t limit = UINT64_C(1) << SIM_ADDRESS_BITS;
    return access->bytes > 0 && access->ptr < limit && access->bytes <= limit - access->ptr;
}

static bool is_one_accessible(int device, const pleat_sim_access *access, uint64_t *any)
{
    uint64_t end = access->ptr + access->bytes;
    if (!is_sane(access)) {
        return access->bytes == 0;
    }
    sim_scan scan = sim_space_scan(&sim.space, access->ptr, end);
    uint64_t right = access->is_write ? SIM_GRANULE_WRITE(device) : SIM_GRANULE_READ(device);
    *any |= scan.any;
    if ((scan.all & right) == 0) { /* kernels reach pinned and managed memory, too */
        return sim_host_has(access->ptr, access->bytes);
    }
    return (scan.any & SIM_GRANULE_PARTIAL) == 0 || ends_within(access);
}

bool sim_hazard_is_accessible(int device, const pleat_sim_access *accesses, size_t n,
                              const pleat_sim_access **first, uint64_t *any)
{
    bool is_good = true;
    *any = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_one_accessible(device, &accesses[i], any) && is_good) {
            *first = &accesses[i];
            is_good = false;
        }
    }
    return is_good;
}

bool sim_hazard_is_usable(int device, const pleat_sim_access *accesses, size_t n,
                          const pleat_sim_access **first, uint64_t *any)
{
    if (!sim_hazard_is_accessible(device, accesses, n, first, any)) {
        return false;
    }
    return (*any & SIM_GRANULE_POOLED) == 0 || sim_mempool_covers(accesses, n, first);
}

const pleat_sim_access *sim_hazard_conflict(const pleat_sim_access *ours, size_t n_ours,
                                            const pleat_sim_access *theirs, size_t n_theirs)
{
    for (size_t i = 0; i < n_ours; i++) {
        for (size_t k = 0; k < n_theirs; k++) {
            if (theirs[k].bytes > 0 && (ours[i].is_write || theirs[k].is_write) &&
                ours[i].ptr < theirs[k].ptr + theirs[k].bytes &&
                theirs[k].ptr < ours[i].ptr + ours[i].bytes) {
                return &ours[i];
            }
        }
    }
    return NULL;
}

/* In one stream, another one than `stream`. */
static bool find_conflict(const sim_stream *stream, const sim_stream *other,
                          const pleat_sim_access *ours, sim_use *out)
{
    uint64_t end = ours->ptr + ours->bytes;
    uint64_t ordered = sim_clock_get(stream->deps, other->slot);
    uint64_t over = ordered > other->finished ? ordered : other->finished;
    for (uint64_t p = other->submitted; p > over; p--) { /* the newest says most */
        sim_op *op = sim_stream_op(other, p);
        if (op->begin >= end || ours->ptr >= op->end || !(ours->is_write || op->is_write)) {
            continue;
        }
        if (op->task == NULL ||
            sim_hazard_conflict(ours, 1, op->task->accesses, op->task->n) != NULL) {
            *out = (sim_use){ other, op, p };
            return true;
        }
    }
    return false;
}

bool sim_hazard_find_use(const sim_stream *stream, const pleat_sim_access *ours, sim_use *out)
{
    for (uint32_t i = 0; i < sim.n_active; i++) {
        if (sim.active[i] != stream && find_conflict(stream, sim.active[i], ours, out)) {
            return true;
        }
    }
    return false;
}

static const char *word_of(bool is_write)
{
    return is_write ? "write" : "read";
}

static unsigned long long handle_of(const sim_stream *stream)
{
    return (unsigned long long)(uintptr_t)stream->handle;
}

/* Checks one access at one address against every stream. Returns whether a race was recorded. The
 * likely cause of a race on a program's block: its memory serves the next block too early. */
static bool check_one(const sim_stream *stream, const pleat_sim_access *ours, const char *how)
{
    sim_use use;
    if (!sim_hazard_find_use(stream, ours, &use)) {
        return false;
    }
    pleat_sim_hazard *hazard = sim_hazard_add(
        PLEAT_SIM_RACE, ours->ptr, ours->bytes,
        "%s on stream 0x%llx, %s in call %llu on stream 0x%llx, unordered%s: a forgotten "
        "record_stream, or no event between them?",
        word_of(ours->is_write), handle_of(stream), word_of(use.op->is_write),
        (unsigned long long)use.op->call, handle_of(use.stream), how);
    hazard->stream = stream->id;
    hazard->other_stream = use.stream->id;
    hazard->other_place = use.op->place;
    hazard->other_call = use.op->call;
    sim_late_explain_race(hazard, ours, use.op->call);
    return true;
}

/* The number of the call that submitted the oldest unfinished work. */
static uint64_t oldest_call(void)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < sim.n_active; i++) {
        const sim_stream *stream = sim.active[i];
        uint64_t call = sim_stream_op(stream, stream->finished + 1)->call;
        oldest = call < oldest ? call : oldest;
    }
    return oldest;
}

/* `part` lies within `mapping`. Checks the part at the handle's other addresses, where unfinished
 * work may use them. */
static bool check_aliases_of(const sim_stream *stream, const sim_mapping *mapping,
                             const pleat_sim_access *part, uint64_t oldest)
{
    for (const sim_mapping *it = mapping->handle->mappings; it != NULL; it = it->next_alias) {
        pleat_sim_access alias = *part;
        alias.ptr = part->ptr - mapping->ptr + it->ptr;
        if (it != mapping && it->last_call >= oldest &&
            check_one(stream, &alias, " (other mapping)")) {
            return true;
        }
    }
    return false;
}

static bool check_aliases(const sim_stream *stream, const pleat_sim_access *ours)
{
    uint64_t oldest = oldest_call();
    uint64_t end = ours->ptr + ours->bytes;
    for (uint64_t at = ours->ptr; at < end;) {
        uint64_t next = (at | (sim.conf.granule_bytes - 1)) + 1;
        const sim_mapping *mapping = sim_mapping_at(at);
        if (mapping != NULL && mapping->handle->n_mappings > 1) {
            uint64_t mapping_end = mapping->ptr + mapping->bytes;
            next = mapping_end < end ? mapping_end : end;
            pleat_sim_access part = { at, next - at, ours->is_write };
            if (check_aliases_of(stream, mapping, &part, oldest)) {
                return true;
            }
        }
        at = next;
    }
    return false;
}

void sim_hazard_note_use(const pleat_sim_access *accesses, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t end = accesses[i].ptr + accesses[i].bytes;
        for (uint64_t at = accesses[i].ptr; is_sane(&accesses[i]) && at < end;) {
            sim_mapping *mapping = sim_mapping_at(at);
            if (mapping != NULL) {
                mapping->last_call = sim.call_number;
            }
            at = (at | (sim.conf.granule_bytes - 1)) + 1;
        }
    }
}

void sim_hazard_check_race(const sim_stream *stream, const pleat_sim_access *accesses, size_t n,
                           uint64_t any)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_sane(&accesses[i])) {
            continue;
        }
        if (check_one(stream, &accesses[i], "")) {
            return;
        }
        if ((any & SIM_GRANULE_ALIASED) != 0 && check_aliases(stream, &accesses[i])) {
            return;
        }
    }
}

static bool is_touching(const sim_op *op, const pleat_sim_access *range)
{
    if (op->begin >= range->ptr + range->bytes || range->ptr >= op->end) {
        return false;
    }
    return op->task == NULL ||
           sim_hazard_conflict(range, 1, op->task->accesses, op->task->n) != NULL;
}

void sim_hazard_check_free(const sim_stream *stream, uint64_t ptr, uint64_t bytes)
{
    pleat_sim_access range = { ptr, bytes, true };
    sim_use use;
    if (sim_hazard_find_use(stream, &range, &use)) {
        use.op->is_reported = true;
        sim_hazard_add(PLEAT_SIM_UNMAP_IN_USE, ptr, bytes,
                       "cuMemFreeAsync on stream 0x%llx is not ordered after call %llu on "
                       "stream 0x%llx: no event between them?",
                       handle_of(stream), (unsigned long long)use.op->call, handle_of(use.stream));
    }
}

void sim_hazard_check_unmap(uint64_t ptr, uint64_t bytes, const char *what)
{
    pleat_sim_access range = { ptr, bytes, true };
    bool is_recorded = false;
    for (uint32_t i = 0; i < sim.n_active; i++) {
        const sim_stream *stream = sim.active[i];
        for (uint64_t p = stream->finished + 1; p <= stream->submitted; p++) {
            sim_op *op = sim_stream_op(stream, p);
            if (op->is_reported || !is_touching(op, &range)) {
                continue;
            }
            op->is_reported = true;
            if (!is_recorded) {
                sim_hazard_add(PLEAT_SIM_UNMAP_IN_USE, ptr, bytes,
                               "%s under unfinished work of call %llu on stream 0x%llx: freed "
                               "before that work was over?",
                               what, (unsigned long long)op->call, handle_of(stream));
            }
            is_recorded = true;
        }
    }
}

uint64_t sim_hazard_last_use(uint64_t ptr, uint64_t bytes)
{
    pleat_sim_access range = { ptr, bytes, true };
    uint64_t last = 0;
    for (uint32_t i = 0; i < sim.n_active; i++) {
        const sim_stream *stream = sim.active[i];
        for (uint64_t p = stream->finished + 1; p <= stream->submitted; p++) {
            const sim_op *op = sim_stream_op(stream, p);
            if (op->call > last && is_touching(op, &range)) {
                last = op->call;
            }
        }
    }
    return last;
}
