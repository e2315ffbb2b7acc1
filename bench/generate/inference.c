/* inference.c - prompts and tokens with caches. Records nothing for a backward pass. */
#include "bench/generate/inference.h"

#include <stdlib.h>

enum { INDEX = 8, WIDE = 4 };

#define MOST_PAGES ((size_t)1 << 26)

const char *const inference_cache_words[] = { "concat", "paged", NULL };

bool inference_init(inference *n, decoder *d, const inference_plan *plan, bench_failure *failure)
{
    *n = (inference){ .d = d, .plan = *plan };
    size_t n_caches = (size_t)plan->n_requests * d->shape.n_layers;
    n->n_pages = plan->cache == INFERENCE_PAGED ? (plan->most_tokens + plan->page - 1) / plan->page
                                                : 0;
    if (n_caches * n->n_pages > MOST_PAGES) {
        return bench_fail(failure, "requests x layers x pages is %llu; at most %llu are allowed",
                          (unsigned long long)n_caches * n->n_pages,
                          (unsigned long long)MOST_PAGES);
    }
    n->keys = calloc(n_caches, sizeof *n->keys);
    n->values = calloc(n_caches, sizeof *n->values);
    n->pages = n->n_pages ? calloc(n_caches * n->n_pages, sizeof *n->pages) : NULL;
    n->lengths = calloc(plan->n_requests, sizeof *n->lengths);
    if (!n->keys || !n->values || !n->lengths || (n->n_pages && !n->pages)) {
        inference_fini(n);
        return bench_fail(failure, "out of host memory");
    }
    return true;
}

void inference_fini(inference *n)
{
    free(n->keys);
    free(n->values);
    free(n->pages);
    free(n->lengths);
    *n = (inference){ .n_pages = 0 };
}

/* Bytes of the keys (or values) of one request's `tokens` tokens. */
static uint64_t cache_bytes(const inference *n, uint64_t tokens)
{
    const decoder_shape *s = &n->d->shape;
    return tokens * n->plan.n_rows * (s->hidden / s->n_heads) * s->n_kv_heads * n->d->element;
}

/* Allocates pages for all tokens up to `tokens`, keys and values together. */
static void fill_pages(inference *n, size_t cache, uint32_t tokens)
{
    uint32_t *pages = n->pages + cache * n->n_pages;
    uint32_t n_needed = (tokens + n->plan.page - 1) / n->plan.page;
    for (uint32_t i = n_needed; i-- > 0 && pages[i] == 0;) {
        pages[i] = eager_new(&n->d->e, 2 * cache_bytes(n, n->plan.page)).block;
    }
}

void inference_drop(inference *n, uint32_t request)
{
    eager *e = &n->d->e;
    uint32_t n_layers = n->d->shape.n_layers;
    for (size_t cache = (size_t)request * n_layers; cache < (size_t)(request + 1) * n_layers;
         cache++) {
        eager_forget(e, &n->keys[cache]);
        eager_forget(e, &n->values[cache]);
        for (uint32_t i = 0; i < n->n_pages; i++) {
            eager_drop(e, (eager_value){ .block = n->pages[cache * n->n_pages + i] });
            n->pages[cache * n->n_pages + i] = 0;
        }
    }
    n->lengths[request] = 0;
}

void inference_end(inference *n)
{
    eager_forget(&n->d->e, &n->logits);
    decoder_end(n->d);
}

/* Moves the last layer's keys and values into the caches of `cache`. */
static void keep(inference *n, size_t cache, uint32_t length)
{
    eager *e = &n->d->e;
    n->keys[cache] = n->d->kept_k;
    n->values[cache] = n->d->kept_v;
    if (n->plan.cache == INFERENCE_PAGED) {
        fill_pages(n, cache, length);
        eager_forget(e, &n->keys[cache]);
        eager_forget(e, &n->values[cache]);
    }
}

/* Make new logits and drop the last pass's logits. */
static void replace_logits(inference *n, uint64_t n_tokens, bool is_wide)
{
    eager *e = &n->d->e;
    uint64_t bytes = n_tokens * n->d->shape.vocabulary;
    eager_value logits = eager_new(e, bytes * n->d->element);
    if (is_wide) {
        logits = op_replace(e, logits, eager_new(e, bytes * WIDE));
    }
    eager_drop(e, n->logits);
    n->logits = logits;
}

void inference_prefill(inference *n, uint32_t request, uint32_t length)
{
    decoder *d = n->d;
    eager *e = &d->e;
    bool was_recording = e->is_recording;
    e->is_recording = false;
    d->keeps_kv = true;
    decoder_begin(d, n->plan.n_rows, length);
    eager_value cosine = d->cosine;
    eager_value sine = d->sine;
    eager_value indices = eager_new(e, d->sizes.indices);
    eager_value x = decoder_embed(d, indices);
    eager_drop(e, indices);
    eager_drop(e, cosine);
    eager_drop(e, sine);
    for (uint32_t i = 0; i < d->shape.n_layers; i++) {
        x = op_replace(e, x, decoder_layer_run(d, i, x));
        keep(n, (size_t)request * d->shape.n_layers + i, length);
    }
    eager_value h = decoder_norm(d, x, d->norm, d->norm_bias);
    replace_logits(n, n->plan.n_rows, false);
    eager_drop(e, x);
    eager_drop(e, h);
    decoder_drop_casts(d);
    n->lengths[request] = length;
    d->keeps_kv = false;
    e->is_recording = was_recording;
}

/* Adds the new token's keys and values to the request's caches, and computes its attention. */
static eager_value attend(inference *n, uint32_t request, uint32_t layer)
{
    eager *e = &n->d->e;
    size_t cache = (size_t)request * n->d->shape.n_layers + layer;
    uint32_t tokens = n->lengths[request] + 1;
    if (n->plan.cache == INFERENCE_PAGED) {
        fill_pages(n, cache, tokens);
    } else {
        eager_value keys = eager_new(e, cache_bytes(n, tokens));
        eager_value values = eager_new(e, cache_bytes(n, tokens));
        eager_drop(e, n->keys[cache]);
        eager_drop(e, n->values[cache]);
        n->keys[cache] = keys;
        n->values[cache] = values;
    }
    return eager_new(e, n->d->shape.hidden * n->plan.n_rows * n->d->element);
}

static eager_value run_layer(inference *n, uint32_t i, eager_value x, const uint32_t *requests,
                             uint32_t n_requests, uint32_t *outs)
{
    decoder *d = n->d;
    eager *e = &d->e;
    const decoder_layer *w = &d->layers[i];
    const decoder_sizes *z = &d->sizes;
    eager_value none = { .block = 0 };
    eager_value h = decoder_norm(d, x, w->norm1, w->norm1_bias);
    eager_value q = decoder_linear(d, h, w->q, none, z->activation, z->activation);
    eager_value k = decoder_linear(d, h, w->k, none, z->kv, z->activation);
    eager_value v = decoder_linear(d, h, w->v, none, z->kv, z->activation);
    for (uint32_t r = 0; r < n_requests; r++) {
        outs[r] = attend(n, requests[r], i).block;
    }
    eager_value y = eager_new(e, z->activation);
    eager_value o = decoder_linear(d, y, w->out, none, z->activation, z->activation);
    eager_drop(e, y);
    eager_value middle = decoder_plus(d, x, o);
    eager_value locals[] = { x, q, o, v, k, h };
    for (unsigned local = 0; local < sizeof locals / sizeof locals[0]; local++) {
        eager_drop(e, locals[local]);
    }
    for (uint32_t r = 0; r < n_requests; r++) {
        eager_drop(e, (eager_value){ .block = outs[r] });
    }
    h = decoder_norm(d, middle, w->norm2, w->norm2_bias);
    eager_value m = decoder_mlp(d, w, h);
    eager_value out = decoder_plus(d, middle, m);
    eager_drop(e, middle);
    eager_drop(e, m);
    return out;
}

void inference_decode(inference *n, const uint32_t *requests, uint32_t n_requests)
{
    decoder *d = n->d;
    eager *e = &d->e;
    bool was_recording = e->is_recording;
    uint32_t outs[INFERENCE_MOST_REQUESTS];
    e->is_recording = false;
    decoder_begin(d, (uint64_t)n_requests * n->plan.n_rows, 1);
    eager_value indices = eager_new(e, d->sizes.n_tokens * INDEX);
    eager_value x = eager_new(e, d->sizes.residual);
    eager_drop(e, indices);
    for (uint32_t i = 0; i < d->shape.n_layers; i++) {
        x = run_layer(n, i, x, requests, n_requests, outs);
    }
    eager_value h = decoder_norm(d, x, d->norm, d->norm_bias);
    eager_drop(e, x);
    replace_logits(n, d->sizes.n_tokens, true);
    eager_drop(e, h);
    decoder_drop_casts(d);
    for (uint32_t r = 0; r < n_requests; r++) {
        n->lengths[requests[r]]++;
    }
    e->is_recording = was_recording;
}
