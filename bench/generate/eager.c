/* eager.c - storages, the graph, and the backward pass. */
#include "bench/generate/eager.h"

#include <stdlib.h>

#include "vmm/base/assert.h"

/* An edge names a leaf, or a node and one of the node's outputs. Node 0 is not used. */
#define LEAF (UINT32_C(1) << 31)

void eager_init(eager *e)
{
    *e = (eager){ .n_nodes = 1, .is_recording = true };
}

void eager_fini(eager *e)
{
    free(e->blocks);
    free(e->nodes);
    free(e->leaves);
    *e = (eager){ .n_nodes = 1 };
}

static void *fail(eager *e)
{
    e->has_failed = true;
    if (!e->tape->problem) {
        e->tape->problem = "out of host memory";
    }
    return NULL;
}

/* Double the room for entries of `size` bytes, to at least `least` of them. NULL when out of
 * memory; the old array is then as before. */
static void *enlarge(eager *e, void *array, uint32_t *n, uint32_t least, size_t size)
{
    uint32_t wanted = *n ? 2 * *n : 256;
    wanted = wanted < least ? least : wanted;
    void *larger = realloc(array, wanted * size);
    if (!larger) {
        return fail(e);
    }
    *n = wanted;
    return larger;
}

static uint32_t take(eager *e, uint64_t bytes)
{
    uint32_t slot;
    if (e->has_failed || !bench_tape_alloc(e->tape, bytes, e->stream, &slot)) {
        e->has_failed = true;
        return 0;
    }
    uint32_t block = slot + 1;
    if (block >= e->n_blocks) {
        eager_block *blocks = enlarge(e, e->blocks, &e->n_blocks, block + 1, sizeof *blocks);
        if (!blocks) {
            return 0;
        }
        e->blocks = blocks;
    }
    e->blocks[block] = (eager_block){ .bytes = bytes, .n_references = 1 };
    return block;
}

static void drop(eager *e, uint32_t block)
{
    if (block == 0 || e->has_failed) {
        return;
    }
    pl_assert(e->blocks[block].n_references > 0);
    if (--e->blocks[block].n_references == 0 && !bench_tape_free(e->tape, block - 1)) {
        e->has_failed = true;
    }
}

static uint32_t keep(eager *e, uint32_t block)
{
    if (block != 0 && !e->has_failed) {
        e->blocks[block].n_references++;
    }
    return block;
}

eager_value eager_new(eager *e, uint64_t bytes)
{
    return (eager_value){ .block = take(e, bytes) };
}

eager_value eager_keep(eager *e, eager_value value)
{
    keep(e, value.block);
    return value;
}

eager_value eager_detach(eager *e, eager_value value)
{
    return (eager_value){ .block = keep(e, value.block) };
}

void eager_drop(eager *e, eager_value value)
{
    drop(e, value.block);
}

void eager_forget(eager *e, eager_value *value)
{
    drop(e, value->block);
    *value = (eager_value){ .block = 0 };
}

eager_value eager_parameter(eager *e, uint64_t bytes, bool is_frozen)
{
    eager_value value = eager_new(e, bytes);
    if (is_frozen || e->has_failed) {
        return value;
    }
    if (e->n_leaves == e->leaf_capacity) {
        eager_leaf *leaves = enlarge(e, e->leaves, &e->leaf_capacity, 0, sizeof *leaves);
        if (!leaves) {
            return value;
        }
        e->leaves = leaves;
    }
    value.edge = LEAF | e->n_leaves;
    e->leaves[e->n_leaves++] = (eager_leaf){ .bytes = bytes, .block = value.block };
    return value;
}

eager_leaf *eager_leaf_of(eager *e, eager_value parameter)
{
    return parameter.edge & LEAF ? &e->leaves[parameter.edge & ~LEAF] : NULL;
}

void eager_zero_gradients(eager *e)
{
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        drop(e, e->leaves[i].gradient);
        e->leaves[i].gradient = 0;
    }
}

bool eager_needs(const eager *e, uint32_t edges)
{
    return e->is_recording && edges != 0 && !e->has_failed;
}

/* Stands for a node when there is no memory. */
static _Thread_local eager_node no_node;

eager_node *eager_record(eager *e, eager_value *out)
{
    if (e->n_nodes >= e->node_capacity) {
        eager_node *nodes = enlarge(e, e->nodes, &e->node_capacity, 0, sizeof *nodes);
        if (!nodes) {
            no_node.n_steps = no_node.n_saved = 0;
            return &no_node;
        }
        e->nodes = nodes;
    }
    eager_node *node = &e->nodes[e->n_nodes];
    node->n_steps = 0;
    node->n_saved = 0;
    node->has_hook = false;
    for (unsigned i = 0; i < EAGER_MOST_OUTPUTS; i++) {
        node->gradients[i] = 0;
    }
    out->edge = e->n_nodes++ * EAGER_MOST_OUTPUTS;
    return node;
}

void eager_save(eager *e, eager_node *node, eager_value value)
{
    pl_assert(node->n_saved < EAGER_MOST_SAVED);
    node->saved[node->n_saved++] = keep(e, value.block);
}

static void add_step(eager *e, eager_node *node, uint32_t edge, uint64_t bytes)
{
    pl_assert(node->n_steps < EAGER_MOST_STEPS);
    node->steps[node->n_steps++] = (eager_step){ .bytes = bytes, .edge = edge };
    if (edge & LEAF) {
        e->leaves[edge & ~LEAF].n_uses++;
    }
}

void eager_give(eager *e, eager_node *node, uint32_t edge, uint64_t bytes)
{
    if (edge) {
        add_step(e, node, edge, bytes);
    }
}

void eager_pass(eager *e, eager_node *node, uint32_t edge)
{
    if (edge) {
        add_step(e, node, edge, 0);
    }
}

void eager_temporary(eager_node *node, uint64_t bytes)
{
    pl_assert(node->n_steps < EAGER_MOST_STEPS);
    node->steps[node->n_steps++] = (eager_step){ .bytes = bytes };
}

eager_value eager_hook(eager *e, eager_value x, uint32_t argument)
{
    eager_value out = { .block = keep(e, x.block) };
    if (eager_needs(e, x.edge)) {
        eager_node *node = eager_record(e, &out);
        node->has_hook = true;
        node->argument = argument;
        eager_pass(e, node, x.edge);
    }
    return out;
}

/* A second gradient for the same place makes a sum. */
static void accumulate(eager *e, uint32_t *place, uint32_t gradient)
{
    if (*place) {
        uint32_t sum = take(e, e->blocks[*place].bytes);
        drop(e, gradient);
        drop(e, *place);
        *place = sum;
    } else {
        *place = gradient;
    }
}

/* All gradients for the leaf have arrived: adopt the sum, or add it to the existing gradient. */
static void settle_leaf(eager *e, eager_leaf *leaf)
{
    leaf->n_uses = leaf->n_arrived = 0;
    if (leaf->gradient) {
        drop(e, leaf->arriving);
    } else if (leaf->arriving && e->blocks[leaf->arriving].n_references > 1) {
        leaf->gradient = take(e, leaf->bytes);
        drop(e, leaf->arriving);
    } else {
        leaf->gradient = leaf->arriving;
    }
    leaf->arriving = 0;
}

void eager_deliver(eager *e, uint32_t edge, eager_value gradient)
{
    if (e->has_failed) {
        return;
    }
    if (!(edge & LEAF)) {
        eager_node *node = &e->nodes[edge / EAGER_MOST_OUTPUTS];
        accumulate(e, &node->gradients[edge % EAGER_MOST_OUTPUTS], gradient.block);
        return;
    }
    eager_leaf *leaf = &e->leaves[edge & ~LEAF];
    accumulate(e, &leaf->arriving, gradient.block);
    if (++leaf->n_arrived == leaf->n_uses && !e->has_failed) {
        settle_leaf(e, leaf);
    }
}

static void release(eager *e, const eager_node *node)
{
    for (unsigned i = 0; i < EAGER_MOST_OUTPUTS; i++) {
        drop(e, node->gradients[i]);
    }
    for (unsigned i = 0; i < node->n_saved; i++) {
        drop(e, node->saved[i]);
    }
}

/* No gradient came to this node. Its leaves wait for one fewer. */
static void skip(eager *e, const eager_node *node)
{
    release(e, node);
    for (unsigned i = 0; i < node->n_steps; i++) {
        if (node->steps[i].edge & LEAF) {
            eager_leaf *leaf = &e->leaves[node->steps[i].edge & ~LEAF];
            leaf->n_uses--;
            if (leaf->n_uses > 0 && leaf->n_arrived == leaf->n_uses) {
                settle_leaf(e, leaf);
            }
        }
    }
}

static bool has_gradient(const eager_node *node)
{
    return (node->gradients[0] | node->gradients[1] | node->gradients[2] | node->gradients[3]) != 0;
}

static void run(eager *e, const eager_node *node)
{
    uint32_t made[EAGER_MOST_STEPS];
    for (unsigned i = 0; i < node->n_steps; i++) {
        uint64_t bytes = node->steps[i].bytes;
        made[i] = bytes ? take(e, bytes) : keep(e, node->gradients[0]);
    }
    release(e, node);
    for (unsigned i = 0; i < node->n_steps; i++) {
        if (node->steps[i].edge == 0) {
            drop(e, made[i]);
        }
    }
    for (unsigned i = 0; i < node->n_steps; i++) {
        if (node->steps[i].edge != 0) {
            eager_deliver(e, node->steps[i].edge, (eager_value){ .block = made[i] });
        }
    }
}

/* Works on a copy of the node, since the hook's nodes take its place. */
static void run_hook(eager *e, eager_node node)
{
    if (e->hook(e->owner, node.argument, &node)) {
        release(e, &node);
    } else {
        run(e, &node);
    }
}

void eager_backward(eager *e)
{
    bool was_recording = e->is_recording;
    e->is_recording = false;
    while (e->n_nodes > 1 && !e->has_failed) {
        const eager_node *node = &e->nodes[--e->n_nodes];
        if (!has_gradient(node)) {
            skip(e, node);
        } else if (node->has_hook) {
            run_hook(e, *node);
        } else {
            run(e, node);
        }
    }
    e->is_recording = was_recording;
}
