/* segments_model.h - the naive model of the promise: it keeps only live blocks and their addresses,
 * and tries every place to find whether a request could have been served.
 *
 * Shares no code with the allocator that it judges. The caller gives the addresses that exist
 * (ranges) and those that are out of service for the moment (blocked: stale mappings, memory that a
 * capture holds). Granules are counted from the start of each range; if all chunks are larger,
 * chunks are counted instead. Where sizes are mixed the caller also gives the chunks of several
 * granules (large): one that is in use anywhere is held as a whole. */
#ifndef PLEAT_TESTS_SEGMENTS_MODEL_H
#define PLEAT_TESTS_SEGMENTS_MODEL_H

#include "vmm/base/pleat_types.h"

enum { MODEL_QUANTUM = 512 };

typedef struct model_span {
    pleat_devptr base;
    uint64_t bytes;
    bool is_held; /* out of service, but its granules are backed: they count in P */
} model_span;

/* Spans in address order, without overlaps. */
typedef struct model_spans {
    model_span *span;
    size_t n;
    size_t room;
} model_spans;

typedef struct model {
    size_t granule_bytes;
    size_t step; /* starts that are tried: its multiples, and both ends of every gap */
    model_spans live;
    model_spans large;
    uint64_t live_bytes;
    uint64_t peak_bytes;
} model;

/* step = the granule: from any other start a place can move down in its gap without touching a
 * further granule. Set step to the quantum to test that claim, too. */
void model_init(model *m, size_t granule_bytes);
void model_fini(model *m);

/* The bytes as an allocator rounds them. */
static inline uint64_t model_round(uint64_t bytes)
{
    return (bytes + MODEL_QUANTUM - 1) / MODEL_QUANTUM * MODEL_QUANTUM;
}

/* A block of `bytes`, to be rounded, has become live. Returns NULL, or what is wrong with its
 * address. */
const char *model_add(model *m, pleat_devptr base, uint64_t bytes);
/* The live block at `base` is freed. Returns NULL, or what is wrong. */
const char *model_remove(model *m, pleat_devptr base);

/* Insert a span in order; false if it overlaps another. */
bool model_spans_add(model_spans *spans, model_span span);
void model_spans_clear(model_spans *spans);

/* L: granules that hold a byte of a live block. */
size_t model_live_granules(const model *m, const model_spans *ranges);
/* L + P: adds the granules of blocked spans that are held. */
size_t model_held_granules(const model *m, const model_spans *ranges, const model_spans *blocked);
/* L + P + T: adds the other granules of their large chunks. */
size_t model_used_granules(const model *m, const model_spans *ranges, const model_spans *blocked);
/* m: the least number of further granules that `bytes` need, over all places in the ranges, which
 * are all intervals that touch no live block and no blocked span. A large chunk that is in use
 * needs none, one that is not needs all of its granules. SIZE_MAX: there is no place. */
size_t model_least_further(const model *m, const model_spans *ranges, const model_spans *blocked,
                           uint64_t bytes);
/* The same in a range of its own. */
static inline size_t model_fresh(const model *m, uint64_t bytes)
{
    return (size_t)((model_round(bytes) + m->granule_bytes - 1) / m->granule_bytes);
}

#endif
