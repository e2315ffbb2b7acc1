/* shards.c - gathers, releases and reduces a decoder's sharded layers. */
#include "bench/generate/shards.h"

#include <stdlib.h>

enum { MASTER = 4, MOST_LATE = 48, SHARDS_WORKSPACE = 8519680 };

bool shards_init(shards *s, decoder *d, uint32_t n, uint32_t n_ahead, bench_random *random,
                 bench_failure *failure)
{
    *s = (shards){ .d = d, .random = random, .n = n, .n_ahead = n_ahead };
    if (n <= 1) {
        return true;
    }
    s->whole = calloc(d->shape.n_layers, sizeof *s->whole);
    s->masters = calloc(d->shape.n_layers, sizeof *s->masters);
    if (!s->whole || !s->masters) {
        shards_fini(s);
        return bench_fail(failure, "out of host memory");
    }
    return true;
}

void shards_fini(shards *s)
{
    free(s->whole);
    free(s->masters);
    *s = (shards){ .n = 0 };
}

/* Every rank first makes the whole layers, then the parts. */
void shards_make(shards *s)
{
    eager *e = &s->d->e;
    eager_value *parameters[DECODER_MOST_PARAMETERS];
    if (s->n <= 1) {
        return;
    }
    s->layer_bytes = 0;
    uint32_t n = decoder_layer_parameters(s->d, 0, parameters);
    for (uint32_t k = 0; k < n && !e->has_failed; k++) {
        s->layer_bytes += eager_leaf_of(e, *parameters[k])->bytes;
    }
    uint64_t n_parameters = s->layer_bytes / s->d->parameter;
    uint64_t n_part = (n_parameters + s->n - 1) / s->n;
    uint64_t master = n_part * MASTER;
    s->shard_bytes = n_part * s->d->parameter;
    for (uint32_t i = 0; i < s->d->shape.n_layers; i++) {
        s->masters[i] = eager_parameter(e, master, false);
        n = decoder_layer_parameters(s->d, i, parameters);
        for (uint32_t k = 0; k < n; k++) {
            eager_drop(e, *parameters[k]);
            parameters[k]->block = 0;
        }
    }
    e->stream = SHARDS_STREAM;
    eager_new(e, SHARDS_WORKSPACE);
    e->stream = 0;
}

static void drop_late(shards *s, eager_value value)
{
    eager *e = &s->d->e;
    if (s->n_late == sizeof s->late / sizeof s->late[0]) {
        shards_poll(s, true);
    }
    uint64_t due = e->tape->n_events + bench_random_between(s->random, 0, MOST_LATE);
    s->late[s->n_late].value = value;
    s->late[s->n_late++].due = due;
}

void shards_poll(shards *s, bool all)
{
    eager *e = &s->d->e;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_late; i++) {
        if (all || s->late[i].due <= e->tape->n_events) {
            eager_drop(e, s->late[i].value);
        } else {
            s->late[n++] = s->late[i];
        }
    }
    s->n_late = n;
}

/* Makes this rank's part in the gathered type, then all parts together. */
static void gather(shards *s, uint32_t i)
{
    eager *e = &s->d->e;
    eager_value part = eager_new(e, s->shard_bytes);
    e->stream = SHARDS_STREAM;
    s->whole[i] = eager_new(e, s->shard_bytes * s->n);
    e->stream = 0;
    eager_drop(e, part);
}

void shards_gather(shards *s, uint32_t i, int step)
{
    if (s->n <= 1) {
        return;
    }
    shards_poll(s, false);
    int64_t at = i;
    for (uint32_t k = 0; k <= s->n_ahead && at >= 0 && at < s->d->shape.n_layers; k++) {
        if (s->whole[at].block == 0) {
            gather(s, (uint32_t)at);
        }
        at += step;
    }
}

void shards_release(shards *s, uint32_t i)
{
    if (s->n > 1 && s->whole[i].block) {
        drop_late(s, s->whole[i]);
        s->whole[i] = (eager_value){ .block = 0 };
    }
}

/* Gather the gradients in one block, divide them into a second block, and scatter. This rank's part
 * is kept in 4 bytes, or added to the existing part. */
void shards_reduce(shards *s, uint32_t i)
{
    eager *e = &s->d->e;
    if (s->n <= 1 || e->has_failed) {
        return;
    }
    eager_value flat = eager_new(e, s->shard_bytes * s->n);
    eager_value *parameters[DECODER_MOST_PARAMETERS];
    uint32_t n = decoder_layer_parameters(s->d, i, parameters);
    for (uint32_t k = 0; k < n; k++) {
        eager_leaf *leaf = eager_leaf_of(e, *parameters[k]);
        eager_drop(e, (eager_value){ .block = leaf->gradient });
        leaf->gradient = 0;
    }
    eager_value divided = eager_new(e, s->shard_bytes * s->n);
    eager_drop(e, flat);
    e->stream = SHARDS_STREAM;
    eager_value part = eager_new(e, s->shard_bytes);
    e->stream = 0;
    eager_drop(e, divided);
    eager_leaf *leaf = eager_leaf_of(e, s->masters[i]);
    eager_value gradient = eager_new(e, leaf->bytes);
    if (leaf->gradient) {
        eager_drop(e, gradient);
    } else {
        leaf->gradient = gradient.block;
    }
    drop_late(s, part);
}
