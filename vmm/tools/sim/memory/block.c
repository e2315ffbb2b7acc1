/* block.c - see block.h. */
#include "vmm/tools/sim/memory/block.h"

#include <stddef.h>
#include <stdlib.h>

typedef struct range {
    uint64_t ptr;
    uint64_t bytes;
} range;

static struct {
    sim_skip blocks; /* by their ends */
    uint64_t serial;
    range *joined; /* in no order */
    size_t n_joined;
} known; /* lock */

_Static_assert(offsetof(sim_block, node) == 0, "a node is a block");

bool sim_block_any(void)
{
    return known.blocks.head.next[0] != NULL;
}

sim_block *sim_block_from(uint64_t address)
{
    return (sim_block *)(void *)sim_skip_find(&known.blocks, address + 1);
}

sim_block *sim_block_at(uint64_t address)
{
    sim_block *block = sim_block_from(address);
    return block != NULL && block->start <= address ? block : NULL;
}

static void insert(sim_block *block, uint64_t end)
{
    sim_skip_insert(&known.blocks, &block->node, end, 0);
}

static void forget(sim_block *block)
{
    sim_skip_remove(&known.blocks, &block->node);
    free(block);
}

static void keep_behind(const sim_block *block, uint64_t start)
{
    sim_block *rest = sim_new(sizeof(*rest));
    *rest = *block;
    rest->start = start;
    insert(rest, sim_block_end(block));
}

/* A freed block keeps what is left on both sides of the range. */
static void trim(sim_block *block, uint64_t ptr, uint64_t end)
{
    sim_block old = *block;
    sim_skip_remove(&known.blocks, &block->node);
    if (!old.is_live && sim_block_end(&old) > end) {
        keep_behind(&old, end);
    }
    if (!old.is_live && old.start < ptr) {
        insert(block, ptr);
    } else {
        free(block);
    }
}

static void clear(uint64_t ptr, uint64_t end)
{
    for (sim_block *it = sim_block_from(ptr); it != NULL && it->start < end;) {
        sim_block *next = sim_block_next(it);
        trim(it, ptr, end); /* what it keeps lies before or behind the range */
        it = next;
    }
}

sim_block *sim_block_begin(uint64_t ptr, uint64_t bytes)
{
    sim_block *block = sim_new(sizeof(*block));
    uint64_t end = ptr + (bytes > 0 ? bytes : 1);
    const sim_block *before = sim_block_from(ptr);
    *block = (sim_block){
        .start = ptr,
        .life = { .ptr = ptr, .bytes = bytes },
        .serial = ++known.serial,
        .is_live = true,
        .is_sized = bytes > 0,
        .slot = UINT32_MAX,
    };
    if (before != NULL && before->start < end) {
        block->before = before->life;
    }
    clear(ptr, end);
    insert(block, end);
    return block;
}

void sim_block_resize(sim_block *block, uint64_t bytes)
{
    sim_skip_remove(&known.blocks, &block->node);
    clear(block->life.ptr, block->life.ptr + bytes);
    insert(block, block->life.ptr + bytes);
    block->life.bytes = bytes;
    block->is_sized = true;
}

void sim_block_shade(const sim_block *block)
{
    const sim_reservation *in = sim_space_find(&sim.space, block->start);
    for (sim_block *it = sim_block_next(block);
         it != NULL && !it->is_live && in != NULL && it->start < in->base + in->bytes;) {
        sim_block *next = sim_block_next(it);
        forget(it);
        it = next;
    }
}

void sim_block_forget(uint64_t ptr, uint64_t bytes)
{
    for (sim_block *it = sim_block_from(ptr); it != NULL && it->start < ptr + bytes;) {
        sim_block *next = sim_block_next(it);
        forget(it);
        it = next;
    }
}

void sim_block_drop(uint64_t ptr, uint64_t bytes)
{
    for (sim_block *it = sim_block_from(ptr); it != NULL && it->start < ptr + bytes;
         it = sim_block_next(it)) {
        if (it->is_live) {
            it->is_live = false;
            it->is_reusable = true;
            it->life.freed_call = sim.call_number;
        }
    }
}

void sim_block_lose(uint64_t ptr, uint64_t bytes)
{
    for (sim_block *it = sim_block_from(ptr); it != NULL && it->start < ptr + bytes;
         it = sim_block_next(it)) {
        it->has_lost = it->is_live;
    }
}

void sim_block_regain(void)
{
    for (sim_block *it = sim_block_from(0); it != NULL; it = sim_block_next(it)) {
        it->has_lost = false;
    }
}

void sim_block_join(uint64_t ptr, uint64_t bytes, bool is_on)
{
    if (is_on) {
        known.joined = sim_grow(known.joined, (known.n_joined + 1) * sizeof(known.joined[0]));
        known.joined[known.n_joined++] = (range){ ptr, bytes };
        return;
    }
    for (size_t i = known.n_joined; i-- > 0;) {
        if (known.joined[i].ptr == ptr) {
            known.joined[i] = known.joined[--known.n_joined];
        }
    }
}

bool sim_block_is_joined(uint64_t ptr, uint64_t bytes)
{
    for (size_t i = 0; i < known.n_joined; i++) {
        const range *it = &known.joined[i];
        if (ptr >= it->ptr && ptr - it->ptr < it->bytes && bytes <= it->bytes - (ptr - it->ptr)) {
            return true;
        }
    }
    return false;
}

void sim_block_fini(void)
{
    while (known.blocks.head.next[0] != NULL) {
        forget((sim_block *)(void *)known.blocks.head.next[0]);
    }
    free(known.joined);
    known.joined = NULL;
    known.n_joined = 0;
}
