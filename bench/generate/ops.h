/* ops.h - operations of an eager framework, reduced to the blocks that an operation allocates and
 * keeps. Sizes in bytes.
 *
 * No operation takes over a reference: the caller drops results and keeps the arguments. */
#ifndef PLEAT_BENCH_OPS_H
#define PLEAT_BENCH_OPS_H

#include "bench/generate/eager.h"

enum { OP_KEEPS_NOTHING = 0, OP_KEEPS_INPUT = 1, OP_KEEPS_RESULT = 2 };

/* A result of `out` bytes and a gradient of `in` bytes: activations, scalings, casts, copies. */
eager_value op_unary(eager *e, eager_value x, uint64_t out, uint64_t in, unsigned keeps);
/* A second view of the block of x. The gradient is copied to the layout of x. */
eager_value op_view(eager *e, eager_value x, uint64_t bytes);
/* A new block. The gradient passes unchanged. */
eager_value op_copy(eager *e, eager_value x, uint64_t bytes);
eager_value op_add(eager *e, eager_value a, eager_value b, uint64_t bytes);
/* x plus a broadcast block. The gradient of the broadcast block is a sum of `sum` bytes. */
eager_value op_add_broadcast(eager *e, eager_value x, eager_value b, uint64_t bytes, uint64_t sum);
eager_value op_mul(eager *e, eager_value a, eager_value b, uint64_t bytes);
/* x times a vector over its rows or columns, of `small` bytes. The vector is the first operand (as
 * in weight * x) or the last. */
eager_value op_mul_first(eager *e, eager_value b, eager_value x, uint64_t bytes, uint64_t small);
eager_value op_mul_last(eager *e, eager_value x, eager_value b, uint64_t bytes, uint64_t small);
/* x times random noise, which is kept. */
eager_value op_dropout(eager *e, eager_value x, uint64_t bytes);
/* Batched product; a_bytes and b_bytes are the gradients' sizes. */
eager_value op_matmul(eager *e, eager_value a, eager_value b, uint64_t out, uint64_t a_bytes,
                      uint64_t b_bytes);
/* x times a matrix, plus an optional bias. */
eager_value op_linear(eager *e, eager_value x, eager_value weight, eager_value bias, uint64_t out,
                      uint64_t in);
/* Normalisation with statistics of `stats` bytes, twice, and a weight and a bias of `small`. */
eager_value op_norm(eager *e, eager_value x, eager_value weight, eager_value bias, uint64_t bytes,
                    uint64_t stats, uint64_t small);
/* Cut x into n views, returned in `pieces`. The gradient is one block, joined from the pieces'
 * gradients. */
void op_split(eager *e, eager_value x, uint64_t bytes, unsigned n, eager_value *pieces);
eager_value op_cat(eager *e, eager_value a, eager_value b, uint64_t bytes);
/* A lookup in a table; the gradient is as large as the table, with a temporary for the sorting. */
eager_value op_embedding(eager *e, eager_value table, eager_value indices, uint64_t out,
                         uint64_t table_bytes, uint64_t index_bytes);

/* Drop `old` and return `value`, for x = f(x). */
eager_value op_replace(eager *e, eager_value old, eager_value value);

#endif
