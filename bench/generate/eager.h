/* eager.h - the blocks that an eager framework with reverse-mode differentiation takes and gives
 * back: reference-counted storages, a graph of what the backward pass needs, gradients.
 *
 * Nothing is computed. An operation takes a block for its result. If a gradient will be needed, it
 * adds a node that keeps the blocks which the backward pass reads. The backward pass runs the nodes
 * from the newest to the oldest, as PyTorch's engine does for one thread: a node takes its results
 * and temporaries, drops its incoming gradients and kept blocks, then hands the results to the
 * nodes of its inputs, where a second gradient makes a sum in a third block. Within a formula the
 * results come in the alphabetical order of the operands' names in PyTorch's derivatives.yaml, sums
 * over broadcast dimensions last.
 *
 * After a failure of the tape every call does nothing and returns the empty value. */
#ifndef PLEAT_BENCH_EAGER_H
#define PLEAT_BENCH_EAGER_H

#include "bench/work/tape.h"

/* A reference to a block, and the destination of its gradient. Zeros: no block, no gradient. */
typedef struct eager_value {
    uint32_t block;
    uint32_t edge;
} eager_value;

/* One block that a backward formula takes. */
typedef struct eager_step {
    uint64_t bytes; /* 0 = the incoming gradient itself */
    uint32_t edge;  /* 0 = a temporary, dropped when the node is done */
} eager_step;

enum { EAGER_MOST_SAVED = 6, EAGER_MOST_STEPS = 7, EAGER_MOST_OUTPUTS = 4 };

typedef struct eager_node {
    eager_step steps[EAGER_MOST_STEPS];
    uint32_t saved[EAGER_MOST_SAVED];
    uint32_t gradients[EAGER_MOST_OUTPUTS]; /* of its outputs, as far as they have arrived */
    uint32_t argument;                      /* of the hook */
    uint8_t n_steps;
    uint8_t n_saved;
    bool has_hook;
} eager_node;

/* A parameter: its gradient stays until eager_zero_gradients. */
typedef struct eager_leaf {
    uint64_t bytes;
    uint32_t block;
    uint32_t gradient;
    uint32_t arriving; /* sum of the gradients so far in this backward pass */
    uint32_t n_uses;
    uint32_t n_arrived;
} eager_leaf;

typedef struct eager_block {
    uint64_t bytes;
    uint32_t n_references;
} eager_block;

typedef struct eager {
    bench_tape *tape; /* the caller's; set before each iteration */
    eager_block *blocks;
    eager_node *nodes;
    eager_leaf *leaves;
    uint32_t n_blocks; /* room */
    uint32_t n_nodes;
    uint32_t node_capacity;
    uint32_t n_leaves;
    uint32_t leaf_capacity;
    uint32_t stream; /* of new blocks */
    bool is_recording;
    bool has_failed;
    /* Called for a node that has a hook, with the incoming gradient; the nodes that it adds run
     * next. True when the node itself has nothing left to do except drop what it kept. */
    bool (*hook)(void *owner, uint32_t argument, const eager_node *node);
    void *owner;
} eager;

void eager_init(eager *e);
void eager_fini(eager *e);

eager_value eager_new(eager *e, uint64_t bytes);
eager_value eager_keep(eager *e, eager_value value); /* another reference */
eager_value eager_detach(eager *e, eager_value value);
void eager_drop(eager *e, eager_value value);
void eager_forget(eager *e, eager_value *value); /* drop it and leave it empty */

/* Make a parameter, trained or frozen. The graph keeps its reference until eager_fini. */
eager_value eager_parameter(eager *e, uint64_t bytes, bool is_frozen);
/* A parameter's leaf; NULL for anything else. */
eager_leaf *eager_leaf_of(eager *e, eager_value parameter);
void eager_zero_gradients(eager *e);

/* Building a node: eager_needs tells whether an operation on inputs with these edges needs one.
 * eager_record sets the output's edge. Steps come in the order of their allocation. */
bool eager_needs(const eager *e, uint32_t edges);
eager_node *eager_record(eager *e, eager_value *out);
void eager_save(eager *e, eager_node *node, eager_value value);
void eager_give(eager *e, eager_node *node, uint32_t edge, uint64_t bytes); /* none without edge */
void eager_pass(eager *e, eager_node *node, uint32_t edge);
void eager_temporary(eager_node *node, uint64_t bytes);
/* The edge of a node's further output. */
static inline uint32_t eager_output(uint32_t edge, unsigned index)
{
    return edge ? edge + index : 0;
}
/* Make a node that calls the hook and passes its gradient on. */
eager_value eager_hook(eager *e, eager_value x, uint32_t argument);

/* Hand in a gradient; takes over the reference. */
void eager_deliver(eager *e, uint32_t edge, eager_value gradient);
/* Run all nodes, newest first. */
void eager_backward(eager *e);

#endif
