/* block.h - the blocks that an allocator has told of (pleat_sim_tell), the live and the freed ones.
 *
 *   |## live ##|# live #|-- freed --|      untold      |## live ##|-- freed --|
 *
 * Only what was told is known: bytes under no block are nobody's business here. A freed block stays
 * until its bytes belong to another block, or to another reservation, so late work finds its story.
 *
 * L1  blocks do not overlap; the index has them by their end
 * L2  a block of unknown size has one byte
 * L3  serials only grow, so a later block at the same address is recognised
 *
 * Guarded by sim.lock. */
#ifndef PLEAT_SIM_BLOCK_H
#define PLEAT_SIM_BLOCK_H

#include "vmm/tools/sim/entries/skip.h"
#include "vmm/tools/sim/state.h"

/* Whom bytes belonged to: what a story tells. */
typedef struct sim_block_life {
    uint64_t ptr;
    uint64_t bytes;
    uint64_t stream_id; /* 0: of no stream that is known */
    uint64_t born_call; /* the last call before */
    uint64_t born_place;
    uint64_t freed_call;
    uint64_t freed_place;
} sim_block_life;

enum { SIM_BLOCK_USERS = 4 };

typedef struct sim_block {
    sim_skip_node node;
    uint64_t start; /* of what is left of it; life.ptr until another block took the first bytes */
    sim_block_life life;
    sim_block_life before; /* who had the first bytes last; bytes 0: nobody */
    uint64_t serial;
    bool is_live;
    bool is_reusable;       /* a freed block: all its uses that the allocator knows are over */
    bool is_sized;          /* its size was told */
    bool is_graph_s;        /* allocated in a capture, so a graph uses the bytes for ever */
    bool has_lost;          /* its contents were discarded, and nothing was written since */
    uint32_t slot;          /* of the stream; UINT32_MAX: none */
    uint64_t n_before_free; /* work of the stream until the free */
    unsigned n_users;       /* streams whose work touched it, its own too; more than */
    uint64_t users[SIM_BLOCK_USERS]; /* their ids; these are not kept */
} sim_block;

static inline uint64_t sim_block_end(const sim_block *block)
{
    return block->node.bytes;
}

bool sim_block_any(void);
/* The block that holds `address`, or the first one behind it; NULL: none. */
sim_block *sim_block_from(uint64_t address);
/* The block that holds the address, or NULL. */
sim_block *sim_block_at(uint64_t address);
static inline sim_block *sim_block_next(const sim_block *block)
{
    return (sim_block *)(void *)block->node.next[0]; /* the node is the first member */
}
/* A block begins; what it overlaps goes, and the rest of a freed block stays. */
sim_block *sim_block_begin(uint64_t ptr, uint64_t bytes);
void sim_block_resize(sim_block *block, uint64_t bytes);
/* Its size will never be known: freed blocks behind it, up to the next live one, may be part of it,
 * and are forgotten. */
void sim_block_shade(const sim_block *block);
/* The addresses are reserved anew: nothing that lay there before counts. */
void sim_block_forget(uint64_t ptr, uint64_t bytes);
/* The addresses are given back: live blocks there went with them. */
void sim_block_drop(uint64_t ptr, uint64_t bytes);
/* Live blocks lose their contents. */
void sim_block_lose(uint64_t ptr, uint64_t bytes);
/* No block has lost its contents, after all. */
void sim_block_regain(void);
/* Ranges whose blocks may be used as one: pages of a buffer. */
void sim_block_join(uint64_t ptr, uint64_t bytes, bool is_on);
bool sim_block_is_joined(uint64_t ptr, uint64_t bytes);
void sim_block_fini(void);

#endif
