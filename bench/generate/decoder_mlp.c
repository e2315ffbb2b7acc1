/* decoder_mlp.c - the wide half of a layer: one mlp, or experts that divide the tokens. Both forms
 * consume the reference to the normalised input. */
#include "bench/generate/decoder.h"

eager_value decoder_mlp(decoder *d, const decoder_layer *w, eager_value h)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value none = { .block = 0 };
    eager_value x = decoder_cast(d, h);
    eager_value wide;
    if (w->gate.block | w->gate.edge) {
        eager_value gate = decoder_linear(d, x, w->gate, none, z->inner, z->activation);
        eager_value active = op_unary(e, gate, z->inner, z->inner, OP_KEEPS_INPUT);
        eager_drop(e, gate);
        eager_value up = decoder_linear(d, x, w->up, w->up_bias, z->inner, z->activation);
        wide = op_mul(e, active, up, z->inner);
        eager_drop(e, active);
        eager_drop(e, up);
    } else {
        eager_value up = decoder_linear(d, x, w->up, w->up_bias, z->inner, z->activation);
        eager_drop(e, x);
        eager_drop(e, h);
        x = h = none;
        wide = op_unary(e, up, z->inner, z->inner, OP_KEEPS_INPUT);
        eager_drop(e, up);
    }
    eager_value y = decoder_linear(d, wide, w->down, w->down_bias, z->activation, z->inner);
    eager_drop(e, x);
    eager_drop(e, h);
    eager_drop(e, wide);
    return y;
}

/* Choose each token's best top_k experts and their weights: softmax, selection, division by the
 * sum. */
static eager_value route(decoder *d, const decoder_layer *w, eager_value x, eager_value *chosen)
{
    eager *e = &d->e;
    uint64_t n = d->sizes.n_tokens;
    uint64_t all = n * d->shape.n_experts;
    uint64_t picked = n * d->shape.top_k;
    eager_value none = { .block = 0 };
    eager_value scores = decoder_linear(d, x, w->router, none, all * d->element,
                                        d->sizes.activation);
    eager_value wide = op_unary(e, scores, all * 4, all * d->element, OP_KEEPS_NOTHING);
    eager_drop(e, scores);
    eager_value chances = op_unary(e, wide, all * 4, all * 4, OP_KEEPS_RESULT);
    eager_drop(e, wide);
    eager_value best = op_unary(e, chances, picked * 4, all * 4, OP_KEEPS_NOTHING);
    *chosen = eager_new(e, picked * 8);
    eager_drop(e, chances);
    eager_drop(e, eager_new(e, all * 8)); /* for load balance: a place per item of `all` */
    eager_value sums = op_unary(e, best, n * 4, picked * 4, OP_KEEPS_NOTHING);
    eager_value parts = op_matmul(e, best, sums, picked * 4, picked * 4, n * 4);
    eager_drop(e, best);
    eager_drop(e, sums);
    eager_value weights = op_unary(e, parts, picked * d->element, picked * 4, OP_KEEPS_NOTHING);
    eager_drop(e, parts);
    return weights;
}

/* Draw the tokens of each expert. Each token picks top_k experts by random popularities, drawn anew
 * each time. */
static void share_out(decoder *d, uint64_t *counts)
{
    uint32_t n_experts = d->shape.n_experts;
    uint64_t left = d->sizes.n_tokens * d->shape.top_k;
    uint64_t popularity[DECODER_MOST_EXPERTS];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n_experts; i++) {
        popularity[i] = bench_random_between(d->random, 1, 1000);
        sum += popularity[i];
    }
    for (uint32_t i = 0; i < n_experts; i++) {
        counts[i] = sum ? left * popularity[i] / sum : 0;
        counts[i] = counts[i] < d->sizes.n_tokens ? counts[i] : d->sizes.n_tokens;
        left -= counts[i];
        sum -= popularity[i];
    }
}

/* Picks rows by their numbers. The gradient is a block of zeros, then a copy with the rows put
 * in. */
static eager_value gather(eager *e, eager_value x, eager_value numbers, uint64_t rows, uint64_t all)
{
    eager_value y = eager_new(e, rows);
    if (eager_needs(e, x.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_temporary(node, all);
        eager_give(e, node, x.edge, all);
        eager_save(e, node, numbers);
    }
    return y;
}

/* Run one expert on its n tokens: gather, mlp, weights, addition to a new block of results. */
static eager_value run_expert(decoder *d, const decoder_expert *w, eager_value x, uint64_t n,
                              eager_value weights, eager_value results)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value none = { .block = 0 };
    uint64_t rows = n * d->shape.hidden * d->element;
    uint64_t inner = n * d->shape.ff * d->element;
    eager_value picked = eager_new(e, n * 8);
    eager_value in = gather(e, x, picked, rows, z->activation);
    eager_value gate = decoder_linear(d, in, w->gate, none, inner, rows);
    eager_value active = op_unary(e, gate, inner, inner, OP_KEEPS_INPUT);
    eager_drop(e, gate);
    eager_value up = decoder_linear(d, in, w->up, none, inner, rows);
    eager_drop(e, in);
    eager_value wide = op_mul(e, active, up, inner);
    eager_drop(e, active);
    eager_drop(e, up);
    eager_value out = decoder_linear(d, wide, w->down, none, rows, inner);
    eager_drop(e, wide);
    eager_value part = gather(e, weights, picked, n * d->element,
                              z->n_tokens * d->shape.top_k * d->element);
    eager_value weighted = op_mul_last(e, out, part, rows, n * d->element);
    eager_drop(e, part);
    eager_drop(e, out);
    eager_value sum = op_add_broadcast(e, results, weighted, z->activation, rows);
    if (sum.edge && !e->has_failed) {
        eager_save(e, &e->nodes[e->n_nodes - 1], weighted);
    }
    eager_drop(e, weighted);
    eager_drop(e, picked);
    eager_drop(e, results);
    return sum;
}

eager_value decoder_experts(decoder *d, const decoder_layer *w, eager_value h)
{
    eager *e = &d->e;
    uint64_t counts[DECODER_MOST_EXPERTS];
    eager_value chosen;
    eager_value x = decoder_cast(d, h);
    eager_drop(e, h);
    eager_value weights = route(d, w, x, &chosen);
    eager_value results = eager_new(e, d->sizes.activation);
    share_out(d, counts);
    for (uint32_t i = 0; i < d->shape.n_experts && !e->has_failed; i++) {
        if (counts[i] > 0) {
            results = run_expert(d, &w->experts[i], x, counts[i], weights, results);
        }
    }
    eager_drop(e, weights);
    eager_drop(e, chosen);
    eager_drop(e, x);
    return results;
}
