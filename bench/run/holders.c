/* holders.c - see holders.h. */
#include "bench/run/holders.h"

#include <stdlib.h>

static int by_key(const void *a, const void *b)
{
    const bench_holder *x = &((const bench_held *)a)->key;
    const bench_holder *y = &((const bench_held *)b)->key;
    if (x->is_pending != y->is_pending) {
        return x->is_pending ? 1 : -1;
    }
    if (x->stack != y->stack) {
        return x->stack < y->stack ? -1 : 1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? -1 : 1;
    }
    return (x->stream > y->stream) - (x->stream < y->stream);
}

static int most_charged_first(const void *a, const void *b)
{
    const bench_held *x = a;
    const bench_held *y = b;
    if (x->key.charged_bytes != y->key.charged_bytes) {
        return x->key.charged_bytes < y->key.charged_bytes ? 1 : -1;
    }
    if (x->key.live_bytes != y->key.live_bytes) {
        return x->key.live_bytes < y->key.live_bytes ? 1 : -1;
    }
    return by_key(a, b);
}

void bench_holders_write(bench_moment *out, bench_held *blocks, size_t n)
{
    qsort(blocks, n, sizeof *blocks, by_key);
    size_t n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        bench_held block = blocks[i]; /* a group may overwrite its place */
        if (n_groups == 0 || by_key(&blocks[n_groups - 1], &block) != 0) {
            blocks[n_groups++] = (bench_held){ .key = block.key };
        }
        bench_holder *group = &blocks[n_groups - 1].key;
        group->n_blocks++;
        group->live_bytes += block.bytes;
        group->charged_bytes += block.charged_bytes;
    }
    qsort(blocks, n_groups, sizeof *blocks, most_charged_first);
    out->n_holders = (unsigned)(n_groups < BENCH_MOST_HOLDERS ? n_groups : BENCH_MOST_HOLDERS);
    out->n_other_holders = n_groups - out->n_holders;
    for (unsigned i = 0; i < out->n_holders; i++) {
        out->holders[i] = blocks[i].key;
    }
}
