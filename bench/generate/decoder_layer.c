/* decoder_layer.c - a layer of a decoder: normalisation, attention, mlp. */
#include "bench/generate/decoder.h"

enum { WIDE = 4, FLASH_ROWS = 128 };

/* Autocast's copy of a parameter, which lives until the end of the forward pass. */
static eager_value cast_parameter(decoder *d, eager_value parameter)
{
    eager *e = &d->e;
    if (parameter.block == 0 || d->shape.type != DECODER_AMP || e->has_failed) {
        return parameter;
    }
    uint64_t bytes = e->blocks[parameter.block].bytes;
    eager_value copy = op_unary(e, parameter, bytes / 2, bytes, OP_KEEPS_NOTHING);
    if (d->n_casts < d->most_casts) {
        d->casts[d->n_casts++] = copy;
    }
    return copy;
}

eager_value decoder_linear(decoder *d, eager_value x, eager_value weight, eager_value bias,
                           uint64_t out, uint64_t in)
{
    eager_value w = cast_parameter(d, weight);
    eager_value b = cast_parameter(d, bias);
    return op_linear(&d->e, x, w, b, out, in);
}

eager_value decoder_cast(decoder *d, eager_value residual)
{
    const decoder_sizes *z = &d->sizes;
    return d->shape.type == DECODER_AMP
               ? op_unary(&d->e, residual, z->activation, z->residual, OP_KEEPS_NOTHING)
               : eager_keep(&d->e, residual);
}

eager_value decoder_plus(decoder *d, eager_value x, eager_value branch)
{
    const decoder_sizes *z = &d->sizes;
    return d->shape.type == DECODER_AMP
               ? op_add_broadcast(&d->e, x, branch, z->residual, z->activation)
               : op_add(&d->e, x, branch, z->residual);
}

static eager_value square(eager *e, eager_value x, uint64_t bytes)
{
    eager_value y = eager_new(e, bytes);
    if (eager_needs(e, x.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_temporary(node, bytes);
        eager_temporary(node, bytes);
        eager_give(e, node, x.edge, bytes);
        eager_save(e, node, x);
    }
    return y;
}

static eager_value inverse_root(eager *e, eager_value x, uint64_t bytes)
{
    eager_value y = eager_new(e, bytes);
    if (eager_needs(e, x.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_temporary(node, bytes);
        eager_temporary(node, bytes);
        eager_give(e, node, x.edge, bytes);
        eager_save(e, node, y);
    }
    return y;
}

/* RMSNorm as models write it: in 4 bytes, operation by operation. */
static eager_value norm_llama(decoder *d, eager_value x, eager_value weight)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    bool is_cast = z->residual != z->wide;
    eager_value h = is_cast ? op_unary(e, x, z->wide, z->residual, OP_KEEPS_NOTHING)
                            : eager_keep(e, x);
    eager_value power = square(e, h, z->wide);
    eager_value mean = op_unary(e, power, z->row, z->wide, OP_KEEPS_INPUT);
    eager_drop(e, power);
    eager_value shifted = op_copy(e, mean, z->row);
    eager_value root = inverse_root(e, shifted, z->row);
    eager_drop(e, shifted);
    eager_value scaled = op_mul_last(e, h, root, z->wide, z->row);
    eager_drop(e, h);
    eager_drop(e, root);
    eager_value back = is_cast ? op_unary(e, scaled, z->residual, z->wide, OP_KEEPS_NOTHING)
                               : eager_keep(e, scaled);
    eager_value y = op_mul_first(e, weight, back, z->residual, d->shape.hidden * d->parameter);
    eager_drop(e, scaled);
    eager_drop(e, mean);
    eager_drop(e, back);
    return y;
}

eager_value decoder_norm(decoder *d, eager_value x, eager_value weight, eager_value bias)
{
    if (d->shape.family == DECODER_GPT) {
        return op_norm(&d->e, x, weight, bias, d->sizes.residual, d->sizes.row,
                       d->shape.hidden * d->parameter);
    }
    return norm_llama(d, x, weight);
}

/* The fused kernel needs dense blocks. Blocks of a head group are dense already; all others are
 * copied. */
static eager_value flash(decoder *d, eager_value q, eager_value k, eager_value v)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    const decoder_shape *s = &d->shape;
    bool is_grouped = s->n_kv_heads != s->n_heads;
    uint64_t heads = z->n_rows * s->n_heads;
    uint64_t rows = (z->length + FLASH_ROWS - 1) / FLASH_ROWS * FLASH_ROWS;
    eager_value qc = op_copy(e, q, z->activation);
    eager_value kc = is_grouped ? eager_keep(e, k) : op_copy(e, k, z->activation);
    eager_value vc = is_grouped ? eager_keep(e, v) : op_copy(e, v, z->activation);
    eager_value y = eager_new(e, z->activation);
    eager_value sums = eager_new(e, heads * z->length * WIDE);
    if (eager_needs(e, qc.edge | kc.edge | vc.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_temporary(node, z->activation);
        eager_temporary(node, heads * rows * (s->hidden / s->n_heads) * WIDE);
        eager_temporary(node, heads * rows * WIDE);
        eager_give(e, node, qc.edge, z->activation);
        eager_give(e, node, kc.edge, z->activation);
        eager_give(e, node, vc.edge, z->activation);
        eager_save(e, node, qc);
        eager_save(e, node, kc);
        eager_save(e, node, vc);
        eager_save(e, node, sums);
        eager_save(e, node, y);
    }
    eager_drop(e, qc);
    eager_drop(e, sums);
    eager_drop(e, kc);
    eager_drop(e, vc);
    return y;
}

/* Scores, mask, softmax, dropout, the sum of the values: each step makes a block. */
static eager_value attend_step_by_step(decoder *d, eager_value q, eager_value k, eager_value v)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value qc = op_copy(e, q, z->activation);
    eager_value kc = op_copy(e, k, z->activation);
    eager_value a = op_matmul(e, qc, kc, z->scores, z->activation, z->activation);
    eager_drop(e, qc);
    eager_drop(e, kc);
    a = op_replace(e, a, op_unary(e, a, z->scores, z->scores, OP_KEEPS_NOTHING));
    a = op_replace(e, a, op_copy(e, a, z->scores));
    eager_value p = op_unary(e, a, z->scores, z->scores, OP_KEEPS_RESULT);
    if (d->shape.has_dropout) {
        p = op_replace(e, p, op_dropout(e, p, z->scores));
    }
    eager_value vc = op_copy(e, v, z->activation);
    eager_value y = op_matmul(e, p, vc, z->activation, z->scores, z->activation);
    eager_drop(e, a);
    eager_drop(e, p);
    eager_drop(e, vc);
    return y;
}

eager_value decoder_attention(decoder *d, eager_value q, eager_value k, eager_value v)
{
    return d->shape.is_flash ? flash(d, q, k, v) : attend_step_by_step(d, q, k, v);
}

/* Back to tokens x hidden with a copy. The fused kernel takes the gradient without a copy. */
static eager_value merge_heads(decoder *d, eager_value y)
{
    uint64_t bytes = d->sizes.activation;
    return d->shape.is_flash ? op_copy(&d->e, y, bytes)
                             : op_unary(&d->e, y, bytes, bytes, OP_KEEPS_NOTHING);
}

/* Add the product with two thin matrices to the product with the frozen matrix. */
static eager_value linear_lora(decoder *d, eager_value x, eager_value weight, eager_value bias,
                               eager_value low, eager_value high, uint64_t out)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value none = { .block = 0 };
    eager_value y = decoder_linear(d, x, weight, bias, out, z->activation);
    if (low.block == 0) {
        return y;
    }
    uint64_t thin = z->n_tokens * d->shape.lora_rank * d->element;
    eager_value inner = decoder_linear(d, x, low, none, thin, z->activation);
    eager_value outer = decoder_linear(d, inner, high, none, out, thin);
    eager_drop(e, inner);
    eager_value scaled = op_unary(e, outer, out, out, OP_KEEPS_NOTHING);
    eager_drop(e, outer);
    eager_value sum = op_add(e, y, scaled, out);
    eager_drop(e, scaled);
    eager_drop(e, y);
    return sum;
}

static eager_value drop_out(decoder *d, eager_value x)
{
    return d->shape.has_dropout ? op_dropout(&d->e, x, d->sizes.activation) : eager_keep(&d->e, x);
}

/* qkv and the projected output are locals of the layer and stay until its end. */
static eager_value run_gpt(decoder *d, const decoder_layer *w, eager_value x)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value h = decoder_norm(d, x, w->norm1, w->norm1_bias);
    eager_value in = decoder_cast(d, h);
    eager_value qkv = linear_lora(d, in, w->q, w->q_bias, w->q_low, w->q_high, 3 * z->activation);
    eager_drop(e, in);
    eager_drop(e, h);
    eager_value parts[3];
    op_split(e, qkv, 3 * z->activation, 3, parts);
    eager_value q = op_view(e, parts[0], z->activation);
    eager_value k = d->shape.is_flash ? op_view(e, parts[1], z->activation)
                                      : eager_keep(e, parts[1]);
    eager_value v = op_view(e, parts[2], z->activation);
    eager_value y = decoder_attention(d, q, k, v);
    eager_value merged = merge_heads(d, y);
    eager_value o = decoder_linear(d, merged, w->out, w->out_bias, z->activation, z->activation);
    eager_drop(e, merged);
    eager_drop(e, y);
    eager_value branch = drop_out(d, o);
    eager_value middle = decoder_plus(d, x, branch);
    eager_drop(e, branch);
    h = decoder_norm(d, middle, w->norm2, w->norm2_bias);
    eager_value m = w->experts ? decoder_experts(d, w, h) : decoder_mlp(d, w, h);
    branch = drop_out(d, m);
    eager_value out = decoder_plus(d, middle, branch);
    eager_value locals[] = { qkv, parts[0], parts[1], parts[2], q, k, v, o, branch, m, middle };
    for (unsigned i = 0; i < sizeof locals / sizeof locals[0]; i++) {
        eager_drop(e, locals[i]);
    }
    return out;
}

/* x * cos + turned * sin; `turned` is x with swapped halves, and one half negated. */
static eager_value rotate(decoder *d, eager_value x, uint64_t bytes)
{
    eager *e = &d->e;
    eager_value straight = op_mul(e, x, d->cosine, bytes);
    eager_value halves[2];
    op_split(e, x, bytes, 2, halves);
    eager_value negative = op_unary(e, halves[1], bytes / 2, bytes / 2, OP_KEEPS_NOTHING);
    eager_value turned = op_cat(e, negative, halves[0], bytes);
    eager_drop(e, negative);
    eager_drop(e, halves[0]);
    eager_drop(e, halves[1]);
    eager_value across = op_mul(e, turned, d->sine, bytes);
    eager_drop(e, turned);
    eager_value y = op_add(e, straight, across, bytes);
    eager_drop(e, straight);
    eager_drop(e, across);
    return y;
}

/* Repeat each head of k or v for every query head of its group. */
static eager_value repeat(decoder *d, eager_value x)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    if (d->shape.n_heads == d->shape.n_kv_heads) {
        return eager_keep(e, x);
    }
    eager_value rows = op_view(e, x, z->kv);
    eager_value heads = op_view(e, rows, z->kv);
    eager_value y = op_unary(e, heads, z->activation, z->kv, OP_KEEPS_NOTHING);
    eager_drop(e, rows);
    eager_drop(e, heads);
    return y;
}

static eager_value project(decoder *d, eager_value h, eager_value weight, eager_value low,
                           eager_value high, uint64_t bytes)
{
    eager_value none = { .block = 0 };
    eager_value x = linear_lora(d, h, weight, none, low, high, bytes);
    return op_replace(&d->e, x, op_view(&d->e, x, bytes));
}

static eager_value attend_llama(decoder *d, const decoder_layer *w, eager_value h)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value none = { .block = 0 };
    eager_value q = project(d, h, w->q, w->q_low, w->q_high, z->activation);
    eager_value k = project(d, h, w->k, none, none, z->kv);
    eager_value v = project(d, h, w->v, w->v_low, w->v_high, z->kv);
    eager_value turned_q = rotate(d, q, z->activation);
    eager_value turned_k = rotate(d, k, z->kv);
    eager_drop(e, q);
    eager_drop(e, k);
    if (d->keeps_kv) {
        d->kept_k = eager_detach(e, turned_k);
        d->kept_v = eager_detach(e, v);
    }
    eager_value all_k = repeat(d, turned_k);
    eager_drop(e, turned_k);
    eager_value all_v = repeat(d, v);
    eager_drop(e, v);
    eager_value y = decoder_attention(d, turned_q, all_k, all_v);
    eager_value merged = merge_heads(d, y);
    eager_value o = decoder_linear(d, merged, w->out, none, z->activation, z->activation);
    eager_value locals[] = { all_k, merged, y, all_v, turned_q };
    for (unsigned i = 0; i < sizeof locals / sizeof locals[0]; i++) {
        eager_drop(e, locals[i]);
    }
    return o;
}

static eager_value run_llama(decoder *d, const decoder_layer *w, eager_value x)
{
    eager *e = &d->e;
    eager_value norm = decoder_norm(d, x, w->norm1, w->norm1_bias);
    eager_value h = op_replace(e, norm, decoder_cast(d, norm));
    eager_value o = attend_llama(d, w, h);
    eager_drop(e, h);
    eager_value middle = decoder_plus(d, x, o);
    eager_drop(e, o);
    h = decoder_norm(d, middle, w->norm2, w->norm2_bias);
    eager_value m = w->experts ? decoder_experts(d, w, h) : decoder_mlp(d, w, h);
    eager_value out = decoder_plus(d, middle, m);
    eager_drop(e, middle);
    eager_drop(e, m);
    return out;
}

eager_value decoder_layer_run(decoder *d, uint32_t i, eager_value x)
{
    const decoder_layer *w = &d->layers[i];
    return d->shape.family == DECODER_GPT ? run_gpt(d, w, x) : run_llama(d, w, x);
}
