/* eager.h - the blocks of an eager framework with reverse-mode differentiation: reference-counted
 * storages, a graph of the blocks for the backward pass, gradients.
 *
 * Nothing is computed. An operation takes a block for its result. If a gradient will be needed, the
 * operation adds a node. The node keeps the blocks for the backward pass. The backward pass runs
 * the nodes from the newest to the oldest, as PyTorch's engine does for one thread. A node takes
 * its results and temporaries, and drops its incoming gradients and kept blocks. Then the results
 * go to the nodes of its inputs. A second gradient for the same node makes a sum in a third block.
 * Within a formula the results come in the alphabetical order of the operands' names in PyTorch's
 * derivatives.yaml, sums over broadcast dimensions last.
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

/* A block of a backward formula. */
typedef struct eager_step {
    uint64_t bytes; /* 0 = the incoming gradient itself */
    uint32_t edge;  /* 0 = a temporary, dropped when the node is done */
} eager_step;

enum { EAGER_MOST_SAVED = 6, EAGER_MOST_STEPS = 7, EAGER_MOST_OUTPUTS = 4 };

typedef struct eager_node {
    eager_step steps[EAGER_MOST_STEPS];
    uint32_t saved[EAGER_MOST_SAVED];
    uint32_t gradients[EAGER_MOST_OUTPUTS]; /* arrived gradients of its outputs */
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
    uint32_t arriving; /* sum of the gradients so far in the running backward pass */
    uint32_t n_uses;
    uint32_t n_arrived;
} eager_leaf;

typedef struct eager_block {
    uint64_t bytes;
    uint32_t n_references;
} eager_block;

typedef struct eager {
    bench_tape *tape; /* set by the caller before each iteration */
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
    /* Called for a node with a hook, with the incoming gradient. Nodes that the hook adds run next.
     * True: the caller only drops the node's kept blocks. */
    bool (*hook)(void *owner, uint32_t argument, const eager_node *node);
    void *owner;
} eager;

void eager_init(eager *e);
void eager_fini(eager *e);

eager_value eager_new(eager *e, uint64_t bytes);
eager_value eager_keep(eager *e, eager_value value); /* another reference */
eager_value eager_detach(eager *e, eager_value value);
void eager_drop(eager *e, eager_value value);
void eager_forget(eager *e, eager_value *value); /* drop and empty the value */

/* Make a parameter, trained or frozen. The graph keeps the parameter's reference until
 * eager_fini. */
eager_value eager_parameter(eager *e, uint64_t bytes, bool is_frozen);
/* A parameter's leaf; NULL for other values. */
eager_leaf *eager_leaf_of(eager *e, eager_value parameter);
void eager_zero_gradients(eager *e);

/* Building a node. If an operation on inputs with these edges needs a node, eager_needs is true.
 * Then eager_record makes the node and sets the output's edge. Steps come in the order of their
 * allocation. */
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
/* Make a node that calls the hook and passes the gradient on. */
eager_value eager_hook(eager *e, eager_value x, uint32_t argument);

/* Hand in a gradient; takes over the reference. */
void eager_deliver(eager *e, uint32_t edge, eager_value gradient);
/* Run all nodes, newest first. */
void eager_backward(eager *e);

#endif
