/* ops.c - the operations of an eager framework. The order of allocations is PyTorch's: see
 * eager.h. */
#include "bench/generate/ops.h"

eager_value op_replace(eager *e, eager_value old, eager_value value)
{
    eager_drop(e, old);
    return value;
}

eager_value op_unary(eager *e, eager_value x, uint64_t out, uint64_t in, unsigned keeps)
{
    eager_value y = eager_new(e, out);
    if (eager_needs(e, x.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, x.edge, in);
        if (keeps & OP_KEEPS_INPUT) {
            eager_save(e, node, x);
        }
        if (keeps & OP_KEEPS_RESULT) {
            eager_save(e, node, y);
        }
    }
    return y;
}

eager_value op_view(eager *e, eager_value x, uint64_t bytes)
{
    eager_value y = eager_detach(e, x);
    if (eager_needs(e, x.edge)) {
        eager_give(e, eager_record(e, &y), x.edge, bytes);
    }
    return y;
}

eager_value op_copy(eager *e, eager_value x, uint64_t bytes)
{
    eager_value y = eager_new(e, bytes);
    y.edge = e->is_recording ? x.edge : 0;
    return y;
}

eager_value op_add(eager *e, eager_value a, eager_value b, uint64_t bytes)
{
    eager_value y = eager_new(e, bytes);
    if (eager_needs(e, a.edge | b.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_pass(e, node, b.edge);
        eager_pass(e, node, a.edge);
    }
    return y;
}

eager_value op_add_broadcast(eager *e, eager_value x, eager_value b, uint64_t bytes, uint64_t sum)
{
    eager_value y = eager_new(e, bytes);
    if (eager_needs(e, x.edge | b.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, b.edge, sum);
        eager_pass(e, node, x.edge);
    }
    return y;
}

/* Keep each operand for the other operand's gradient. */
static void save_crosswise(eager *e, eager_node *node, eager_value a, eager_value b)
{
    if (b.edge) {
        eager_save(e, node, a);
    }
    if (a.edge) {
        eager_save(e, node, b);
    }
}

eager_value op_mul(eager *e, eager_value a, eager_value b, uint64_t bytes)
{
    return op_matmul(e, a, b, bytes, bytes, bytes);
}

eager_value op_mul_first(eager *e, eager_value b, eager_value x, uint64_t bytes, uint64_t small)
{
    eager_value y = eager_new(e, bytes);
    if (eager_needs(e, x.edge | b.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, x.edge, bytes);
        if (b.edge) {
            eager_temporary(node, bytes);
        }
        eager_give(e, node, b.edge, small);
        save_crosswise(e, node, b, x);
    }
    return y;
}

eager_value op_mul_last(eager *e, eager_value x, eager_value b, uint64_t bytes, uint64_t small)
{
    eager_value y = eager_new(e, bytes);
    if (eager_needs(e, x.edge | b.edge)) {
        eager_node *node = eager_record(e, &y);
        if (b.edge) {
            eager_temporary(node, bytes);
        }
        eager_give(e, node, x.edge, bytes);
        eager_give(e, node, b.edge, small);
        save_crosswise(e, node, x, b);
    }
    return y;
}

eager_value op_dropout(eager *e, eager_value x, uint64_t bytes)
{
    eager_value noise = eager_new(e, bytes);
    eager_value y = op_mul(e, x, noise, bytes);
    eager_drop(e, noise);
    return y;
}

eager_value op_matmul(eager *e, eager_value a, eager_value b, uint64_t out, uint64_t a_bytes,
                      uint64_t b_bytes)
{
    eager_value y = eager_new(e, out);
    if (eager_needs(e, a.edge | b.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, b.edge, b_bytes);
        eager_give(e, node, a.edge, a_bytes);
        save_crosswise(e, node, a, b);
    }
    return y;
}

/* A sharded parameter has a size but no block of its own. */
static uint64_t size_of(eager *e, eager_value value)
{
    const eager_leaf *leaf = eager_leaf_of(e, value);
    if (leaf) {
        return leaf->bytes;
    }
    return e->has_failed || value.block == 0 ? 0 : e->blocks[value.block].bytes;
}

eager_value op_linear(eager *e, eager_value x, eager_value weight, eager_value bias, uint64_t out,
                      uint64_t in)
{
    eager_value y = eager_new(e, out);
    if (eager_needs(e, x.edge | weight.edge | bias.edge)) {
        eager_node *node = eager_record(e, &y);
        bool is_addmm = (bias.block | bias.edge) != 0;
        if (is_addmm) {
            eager_give(e, node, x.edge, in);
        }
        eager_give(e, node, weight.edge, size_of(e, weight));
        if (!is_addmm) {
            eager_give(e, node, x.edge, in);
        }
        eager_give(e, node, bias.edge, size_of(e, bias));
        save_crosswise(e, node, x, weight);
    }
    return y;
}

eager_value op_norm(eager *e, eager_value x, eager_value weight, eager_value bias, uint64_t bytes,
                    uint64_t stats, uint64_t small)
{
    eager_value y = eager_new(e, bytes);
    eager_value mean = eager_new(e, stats);
    eager_value deviation = eager_new(e, stats);
    if (eager_needs(e, x.edge | weight.edge | bias.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, x.edge, bytes);
        eager_give(e, node, weight.edge, small);
        eager_give(e, node, bias.edge, small);
        eager_save(e, node, x);
        eager_save(e, node, mean);
        eager_save(e, node, deviation);
    }
    eager_drop(e, mean);
    eager_drop(e, deviation);
    return y;
}

void op_split(eager *e, eager_value x, uint64_t bytes, unsigned n, eager_value *pieces)
{
    eager_value y = { .block = 0 };
    if (eager_needs(e, x.edge)) {
        eager_give(e, eager_record(e, &y), x.edge, bytes);
    }
    for (unsigned i = 0; i < n; i++) {
        pieces[i] = eager_detach(e, x);
        pieces[i].edge = eager_output(y.edge, i);
    }
}

eager_value op_cat(eager *e, eager_value a, eager_value b, uint64_t bytes)
{
    return op_add(e, a, b, bytes);
}

eager_value op_embedding(eager *e, eager_value table, eager_value indices, uint64_t out,
                         uint64_t table_bytes, uint64_t index_bytes)
{
    eager_value y = eager_new(e, out);
    if (eager_needs(e, table.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, table.edge, table_bytes);
        eager_temporary(node, 4 * index_bytes);
        eager_save(e, node, indices);
    }
    return y;
}
