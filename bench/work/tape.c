/* tape.c - the events of a run, in order. */
#include "bench/work/tape.h"

#include <stdlib.h>

#include "vmm/base/assert.h"

#define MOST_LIVE_BYTES (UINT64_C(1) << 60)
#define PIECE ((size_t)1 << 14) /* entries in memory beside a file */

void bench_tape_init(bench_tape *tape)
{
    *tape = (bench_tape){ .n_entries = 0 };
}

void bench_tape_fini(bench_tape *tape)
{
    free(tape->entries);
    free(tape->slots);
    free(tape->free_slots);
    bench_uses_fini(&tape->uses, &tape->host);
    bench_spill_destroy(tape->spill);
    bench_tape_init(tape);
}

void bench_tape_rewind(bench_tape *tape)
{
    tape->n_entries = 0;
}

static bool complain(bench_tape *tape, const char *problem)
{
    tape->problem = problem;
    return false;
}

/* If the smaller array cannot be had, the larger one stays. */
static void shrink(bench_tape *tape, size_t capacity)
{
    bench_event *entries = bench_host_resize(
        &tape->host, tape->entries, tape->capacity * sizeof *entries, capacity * sizeof *entries);
    if (entries) {
        tape->entries = entries;
        tape->capacity = capacity;
    }
}

/* Moves the entries in memory to the file. */
static bool spill(bench_tape *tape)
{
    tape->spill = tape->spill ? tape->spill : bench_spill_create(&tape->problem);
    if (!tape->spill ||
        !bench_spill_write(tape->spill, tape->entries, tape->n_entries, &tape->problem)) {
        return false;
    }
    tape->n_entries = 0;
    return true;
}

bool bench_tape_settle(bench_tape *tape)
{
    bench_host *host = &tape->host;
    bench_host_free(host, tape->slots, tape->slot_capacity * sizeof *tape->slots);
    bench_host_free(host, tape->free_slots, tape->slot_capacity * sizeof *tape->free_slots);
    bench_uses_fini(&tape->uses, host);
    tape->slots = NULL;
    tape->free_slots = NULL;
    tape->slot_capacity = 0;
    bool ok = !tape->spill || spill(tape);
    shrink(tape, tape->n_entries ? tape->n_entries : 1);
    return ok;
}

static bool make_room(bench_tape *tape)
{
    if (tape->n_entries < tape->capacity) {
        return true;
    }
    if (tape->most_held && (tape->spill || tape->n_entries >= tape->most_held)) {
        if (!spill(tape)) {
            return false;
        }
        shrink(tape, tape->capacity < PIECE ? tape->capacity : PIECE);
        return true;
    }
    size_t capacity = tape->capacity ? 2 * tape->capacity : 1024;
    if (tape->most_held && capacity > tape->most_held) {
        capacity = tape->most_held;
    }
    bench_event *entries = bench_host_resize(
        &tape->host, tape->entries, tape->capacity * sizeof *entries, capacity * sizeof *entries);
    if (!entries) {
        return complain(tape, bench_host_problem(&tape->host));
    }
    tape->entries = entries;
    tape->capacity = capacity;
    return true;
}

/* Make room for one more slot, and for every slot on the stack. So a free needs no memory. */
static bool make_slot_room(bench_tape *tape)
{
    if (tape->n_free_slots > 0 || tape->n_slots < tape->slot_capacity) {
        return true;
    }
    if (tape->n_slots >= BENCH_MARK / 2) {
        return complain(tape, "too many blocks live at once");
    }
    uint32_t capacity = tape->slot_capacity ? 2 * tape->slot_capacity : 1024;
    bench_host *host = &tape->host;
    uint64_t *slots = bench_host_resize(host, tape->slots, tape->slot_capacity * sizeof *slots,
                                        capacity * sizeof *slots);
    tape->slots = slots ? slots : tape->slots;
    uint32_t *free_slots = bench_host_resize(host, tape->free_slots,
                                             tape->slot_capacity * sizeof *free_slots,
                                             capacity * sizeof *free_slots);
    tape->free_slots = free_slots ? free_slots : tape->free_slots;
    if (!slots || !free_slots) {
        return complain(tape, bench_host_problem(host));
    }
    tape->slot_capacity = capacity;
    return true;
}

bool bench_tape_alloc(bench_tape *tape, uint64_t bytes, uint32_t stream, uint32_t *slot)
{
    if (bytes == 0) {
        return complain(tape, "the size is 0");
    }
    if (bytes > BENCH_LARGEST_BLOCK) {
        return complain(tape, "the size is larger than 2^47");
    }
    if (stream >= BENCH_MOST_STREAMS) {
        return complain(tape, "more than 1024 streams");
    }
    uint64_t rounded = (bytes + BENCH_BLOCK_UNIT - 1) / BENCH_BLOCK_UNIT * BENCH_BLOCK_UNIT;
    if (tape->live_bytes + rounded > MOST_LIVE_BYTES) {
        return complain(tape, "more than 2^60 bytes are live");
    }
    if (!make_room(tape) || !make_slot_room(tape)) {
        return false;
    }
    *slot = tape->n_free_slots > 0 ? tape->free_slots[--tape->n_free_slots] : tape->n_slots++;
    tape->slots[*slot] = rounded;
    tape->live_bytes += rounded;
    if (tape->live_bytes > tape->peak_live_bytes) {
        tape->peak_live_bytes = tape->live_bytes;
        tape->peak_event = tape->n_events;
    }
    tape->n_streams = stream >= tape->n_streams ? stream + 1 : tape->n_streams;
    tape->entries[tape->n_entries++] = (bench_event){ .bytes = bytes,
                                                      .slot = *slot,
                                                      .stream = stream };
    tape->n_events++;
    return true;
}

bool bench_tape_free(bench_tape *tape, uint32_t slot)
{
    pl_assert(slot < tape->n_slots && tape->slots[slot] != 0);
    if (!make_room(tape)) {
        return false;
    }
    bench_uses_freed(&tape->uses, slot);
    tape->live_bytes -= tape->slots[slot];
    if (tape->uses.pending_bytes > tape->peak_pending_bytes) {
        tape->peak_pending_bytes = tape->uses.pending_bytes;
    }
    tape->slots[slot] = 0;
    tape->free_slots[tape->n_free_slots++] = slot;
    tape->entries[tape->n_entries++] = (bench_event){ .slot = slot };
    tape->n_events++;
    return true;
}

bool bench_tape_mark(bench_tape *tape, uint64_t number)
{
    if (!make_room(tape)) {
        return false;
    }
    tape->entries[tape->n_entries++] = (bench_event){ .bytes = number, .slot = BENCH_MARK };
    tape->n_marks++;
    return true;
}

bool bench_tape_use(bench_tape *tape, uint32_t slot, uint32_t stream, uint32_t *use)
{
    pl_assert(slot < tape->n_slots && tape->slots[slot] != 0);
    if (stream >= BENCH_MOST_STREAMS) {
        return complain(tape, "more than 1024 streams");
    }
    if (!make_room(tape)) {
        return false;
    }
    if (!bench_uses_begin(&tape->uses, &tape->host, slot, tape->slots[slot], use)) {
        return complain(tape, bench_host_problem(&tape->host));
    }
    tape->n_streams = stream >= tape->n_streams ? stream + 1 : tape->n_streams;
    tape->n_uses = *use >= tape->n_uses ? *use + 1 : tape->n_uses;
    tape->entries[tape->n_entries++] = (bench_event){ .bytes = (uint64_t)*use << 32 | slot,
                                                      .slot = BENCH_USE,
                                                      .stream = stream };
    return true;
}

bool bench_tape_use_end(bench_tape *tape, uint32_t use)
{
    if (!make_room(tape)) {
        return false;
    }
    bench_uses_end(&tape->uses, use);
    tape->entries[tape->n_entries++] = (bench_event){ .bytes = (uint64_t)use << 32,
                                                      .slot = BENCH_USE_END };
    return true;
}
