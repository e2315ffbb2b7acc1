/* decoder.c - a decoder's weights, the sizes of a step, and its two ends. */
#include "bench/generate/decoder.h"

#include <stdlib.h>

enum { INDEX = 8, WIDE = 4, WORKSPACE = 8519680 }; /* the workspace of cuBLAS */

bool decoder_shape_check(const char *generator, const decoder_shape *s, bench_failure *failure)
{
    if (s->hidden % s->n_heads != 0) {
        return bench_fail(failure, "%s: hidden (%llu) is not a multiple of heads (%u)", generator,
                          (unsigned long long)s->hidden, s->n_heads);
    }
    if (s->n_heads % s->n_kv_heads != 0) {
        return bench_fail(failure, "%s: heads (%u) is not a multiple of kv_heads (%u)", generator,
                          s->n_heads, s->n_kv_heads);
    }
    if (s->family == DECODER_GPT && s->n_kv_heads != s->n_heads) {
        return bench_fail(failure,
                          "%s: family=gpt has one matrix for q, k and v: kv_heads must "
                          "equal heads",
                          generator);
    }
    if (s->top_k > s->n_experts && s->n_experts > 0) {
        return bench_fail(failure, "%s: top_k (%u) is more than experts (%u)", generator, s->top_k,
                          s->n_experts);
    }
    return true;
}

bool decoder_init(decoder *d, const decoder_shape *shape, bench_failure *failure)
{
    *d = (decoder){ .shape = *shape };
    eager_init(&d->e);
    d->element = shape->type == DECODER_FP32 ? 4 : 2;
    d->parameter = shape->type == DECODER_BF16 ? 2 : 4;
    d->layers = calloc(shape->n_layers, sizeof *d->layers);
    d->most_casts = 16 + shape->n_layers * (16 + 3 * shape->n_experts);
    d->casts = calloc(d->most_casts, sizeof *d->casts);
    size_t n_experts = (size_t)shape->n_layers * shape->n_experts;
    d->experts = n_experts ? calloc(n_experts, sizeof *d->experts) : NULL;
    if (!d->layers || !d->casts || (n_experts && !d->experts)) {
        bench_fail(failure, "out of host memory");
        decoder_fini(d);
        return false;
    }
    return true;
}

void decoder_fini(decoder *d)
{
    free(d->layers);
    free(d->casts);
    free(d->experts);
    eager_fini(&d->e);
    *d = (decoder){ .n_casts = 0 };
}

static eager_value weight(decoder *d, uint64_t rows, uint64_t columns)
{
    return eager_parameter(&d->e, rows * columns * d->parameter,
                           d->shape.is_frozen || d->shape.lora_rank > 0);
}

static eager_value bias(decoder *d, uint64_t n)
{
    return d->shape.family == DECODER_GPT ? weight(d, n, 1) : (eager_value){ .block = 0 };
}

static eager_value low_rank(decoder *d, uint64_t n)
{
    return eager_parameter(&d->e, n * d->shape.lora_rank * d->parameter, false);
}

static void make_experts(decoder *d, decoder_layer *layer, uint32_t i)
{
    const decoder_shape *s = &d->shape;
    layer->experts = d->experts + (size_t)i * s->n_experts;
    layer->router = weight(d, s->hidden, s->n_experts);
    for (uint32_t k = 0; k < s->n_experts; k++) {
        layer->experts[k].gate = weight(d, s->hidden, s->ff);
        layer->experts[k].up = weight(d, s->hidden, s->ff);
        layer->experts[k].down = weight(d, s->ff, s->hidden);
    }
}

static void make_mlp(decoder *d, decoder_layer *layer)
{
    const decoder_shape *s = &d->shape;
    if (s->is_gated) {
        layer->gate = weight(d, s->hidden, s->ff);
    }
    layer->up = weight(d, s->hidden, s->ff);
    layer->up_bias = bias(d, s->ff);
    layer->down = weight(d, s->ff, s->hidden);
    layer->down_bias = bias(d, s->hidden);
}

static void make_layer(decoder *d, uint32_t i)
{
    const decoder_shape *s = &d->shape;
    decoder_layer *layer = &d->layers[i];
    bool is_gpt = s->family == DECODER_GPT;
    uint64_t kv = s->hidden / s->n_heads * s->n_kv_heads;
    layer->norm1 = weight(d, s->hidden, 1);
    layer->norm1_bias = bias(d, s->hidden);
    layer->norm2 = weight(d, s->hidden, 1);
    layer->norm2_bias = bias(d, s->hidden);
    layer->q = weight(d, s->hidden, is_gpt ? 3 * s->hidden : s->hidden);
    layer->q_bias = bias(d, 3 * s->hidden);
    if (!is_gpt) {
        layer->k = weight(d, s->hidden, kv);
        layer->v = weight(d, s->hidden, kv);
    }
    layer->out = weight(d, s->hidden, s->hidden);
    layer->out_bias = bias(d, s->hidden);
    if (s->lora_rank) {
        layer->q_low = low_rank(d, s->hidden);
        layer->q_high = low_rank(d, is_gpt ? 3 * s->hidden : s->hidden);
        layer->v_low = is_gpt ? layer->v_low : low_rank(d, s->hidden);
        layer->v_high = is_gpt ? layer->v_high : low_rank(d, kv);
    }
    if (s->n_experts) {
        make_experts(d, layer, i);
    } else {
        make_mlp(d, layer);
    }
}

void decoder_make(decoder *d)
{
    const decoder_shape *s = &d->shape;
    d->embedding = weight(d, s->vocabulary, s->hidden);
    if (s->family == DECODER_GPT) {
        d->positions = weight(d, s->n_positions, s->hidden);
    }
    for (uint32_t i = 0; i < s->n_layers; i++) {
        make_layer(d, i);
    }
    d->norm = weight(d, s->hidden, 1);
    d->norm_bias = bias(d, s->hidden);
    d->head = s->is_tied ? d->embedding : weight(d, s->vocabulary, s->hidden);
    eager_new(&d->e, WORKSPACE);
}

uint32_t decoder_layer_parameters(decoder *d, uint32_t i, eager_value **out)
{
    decoder_layer *w = &d->layers[i];
    eager_value *all[DECODER_MOST_PARAMETERS] = { &w->norm1, &w->norm2, &w->q,  &w->k,   &w->v,
                                                  &w->out,   &w->gate,  &w->up, &w->down };
    uint32_t n = 0;
    for (uint32_t k = 0; k < DECODER_MOST_PARAMETERS; k++) {
        if (all[k]->block | all[k]->edge) {
            out[n++] = all[k];
        }
    }
    return n;
}

void decoder_begin(decoder *d, uint64_t n_rows, uint64_t length)
{
    const decoder_shape *s = &d->shape;
    uint64_t n = n_rows * length;
    bool is_mixed = s->type == DECODER_AMP;
    d->sizes = (decoder_sizes){
        .n_rows = n_rows,
        .length = length,
        .n_tokens = n,
        .indices = n * INDEX,
        .activation = n * s->hidden * d->element,
        .residual = n * s->hidden * (is_mixed ? WIDE : d->element),
        .wide = n * s->hidden * WIDE,
        .row = n * WIDE,
        .kv = n * (s->hidden / s->n_heads) * s->n_kv_heads * d->element,
        .inner = n * s->ff * d->element,
        .scores = n * s->n_heads * length * d->element,
        .table = length * (s->hidden / s->n_heads) * d->element,
    };
}

/* Token and position vectors, their sum, dropout. */
static eager_value embed_gpt(decoder *d, eager_value indices)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    uint64_t row = z->residual / z->n_rows;
    eager_value token = op_embedding(e, d->embedding, indices, z->residual,
                                     d->shape.vocabulary * d->shape.hidden * d->parameter,
                                     z->indices);
    eager_value numbers = eager_new(e, z->length * INDEX);
    eager_value place = op_embedding(e, d->positions, numbers, row,
                                     d->shape.n_positions * d->shape.hidden * d->parameter,
                                     z->length * INDEX);
    eager_value x = op_add_broadcast(e, token, place, z->residual, row);
    eager_drop(e, token);
    eager_drop(e, place);
    eager_drop(e, numbers);
    return d->shape.has_dropout ? op_replace(e, x, op_dropout(e, x, z->residual)) : x;
}

eager_value decoder_embed(decoder *d, eager_value indices)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    eager_value x;
    if (d->shape.family == DECODER_GPT) {
        x = embed_gpt(d, indices);
    } else {
        x = op_embedding(e, d->embedding, indices, z->residual,
                         d->shape.vocabulary * d->shape.hidden * d->parameter, z->indices);
        d->cosine = eager_new(e, z->table);
        d->sine = eager_new(e, z->table);
    }
    if (!d->shape.is_flash) {
        d->mask = eager_new(e, z->length * z->length * WIDE);
    }
    return x;
}

eager_value decoder_logits(decoder *d, eager_value x)
{
    eager *e = &d->e;
    uint64_t bytes = d->sizes.n_tokens * d->shape.vocabulary * d->element;
    eager_value none = { .block = 0 };
    eager_value in = decoder_cast(d, x);
    eager_value logits = decoder_linear(d, in, d->head, none, bytes, d->sizes.activation);
    eager_drop(e, in);
    if (d->shape.family == DECODER_GPT || d->shape.type == DECODER_FP32) {
        return logits;
    }
    uint64_t wide = bytes / d->element * WIDE;
    return op_replace(e, logits, op_unary(e, logits, wide, bytes, OP_KEEPS_NOTHING));
}

/* The logits except each sequence's last: two slices, and a copy because the slices are not
 * dense. */
static eager_value shift(decoder *d, eager_value logits, uint64_t bytes, uint64_t shifted)
{
    eager *e = &d->e;
    eager_value rows = op_view(e, logits, bytes);
    eager_value cut = op_view(e, rows, bytes);
    eager_value copy = op_copy(e, cut, shifted);
    eager_drop(e, rows);
    eager_drop(e, cut);
    return copy;
}

eager_value decoder_loss(decoder *d, eager_value logits, eager_value labels)
{
    eager *e = &d->e;
    const decoder_sizes *z = &d->sizes;
    bool is_narrow = d->shape.family == DECODER_GPT && d->shape.type != DECODER_FP32;
    uint64_t n = z->n_tokens - (z->length > 1 ? z->n_rows : 0);
    uint64_t size = is_narrow ? d->element : WIDE;
    uint64_t wide = n * d->shape.vocabulary * WIDE;
    uint64_t bytes = z->n_tokens * d->shape.vocabulary * size;
    eager_value cut = shift(d, logits, bytes, n * d->shape.vocabulary * size);
    eager_value targets = eager_new(e, n * INDEX);
    eager_value input = is_narrow ? op_unary(e, cut, wide, wide / WIDE * size, OP_KEEPS_NOTHING)
                                  : eager_keep(e, cut);
    eager_value chances = op_unary(e, input, wide, wide, OP_KEEPS_RESULT);
    eager_value loss = eager_new(e, WIDE);
    eager_value total = eager_new(e, WIDE);
    if (eager_needs(e, chances.edge)) {
        eager_node *node = eager_record(e, &loss);
        eager_give(e, node, chances.edge, wide);
        eager_save(e, node, targets);
        eager_save(e, node, total);
    }
    eager_drop(e, labels);
    eager_drop(e, logits);
    eager_drop(e, cut);
    eager_drop(e, input);
    eager_drop(e, targets);
    eager_drop(e, total);
    eager_drop(e, chances);
    return loss;
}

void decoder_drop_casts(decoder *d)
{
    while (d->n_casts > 0) {
        eager_drop(&d->e, d->casts[--d->n_casts]);
    }
}

void decoder_end(decoder *d)
{
    decoder_drop_casts(d);
    eager_forget(&d->e, &d->mask);
    eager_forget(&d->e, &d->cosine);
    eager_forget(&d->e, &d->sine);
}
