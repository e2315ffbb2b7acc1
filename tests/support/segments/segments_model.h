/* segments_model.h - the naive model of the promise. It keeps only live blocks and their addresses.
 * It tries every place to find whether a request could have been served.
 *
 * The model shares no code with the tested allocator. The caller gives the existing addresses
 * (ranges), and the addresses out of service at the moment (blocked: stale mappings, memory held by
 * a capture). Granules are counted from the start of each range. If all chunks are larger, chunks
 * are counted instead. With mixed sizes the caller also gives the chunks of several granules
 * (large): a chunk in use anywhere is held as a whole. */
#ifndef PLEAT_TESTS_SEGMENTS_MODEL_H
#define PLEAT_TESTS_SEGMENTS_MODEL_H

#include "vmm/base/pleat_types.h"

enum { MODEL_QUANTUM = 512 };

typedef struct model_span {
    pleat_devptr base;
    uint64_t bytes;
    bool is_held; /* out of service, but with memory: counts in P */
} model_span;

/* Spans in address order, without overlaps. */
typedef struct model_spans {
    model_span *span;
    size_t n;
    size_t room;
} model_spans;

typedef struct model {
    size_t granule_bytes;
    size_t step; /* tried starts: multiples of step, and the ends of every gap */
    model_spans live;
    model_spans large;
    uint64_t live_bytes;
    uint64_t peak_bytes;
} model;

/* step = the granule. From any other start a place can move down without touching a further
 * granule. Set step to the quantum to test this claim, too. */
void model_init(model *m, size_t granule_bytes);
void model_fini(model *m);

/* The bytes as an allocator rounds them. */
static inline uint64_t model_round(uint64_t bytes)
{
    return (bytes + MODEL_QUANTUM - 1) / MODEL_QUANTUM * MODEL_QUANTUM;
}

/* A block of `bytes`, to be rounded, has become live. Returns NULL, or the fault of its address. */
const char *model_add(model *m, pleat_devptr base, uint64_t bytes);
/* The live block at `base` is freed. Returns NULL, or the error. */
const char *model_remove(model *m, pleat_devptr base);

/* Insert a span in order. False if it overlaps an existing span. */
bool model_spans_add(model_spans *spans, model_span span);
void model_spans_clear(model_spans *spans);

/* L: granules with a byte of a live block. */
size_t model_live_granules(const model *m, const model_spans *ranges);
/* L + P: adds the granules of held blocked spans. */
size_t model_held_granules(const model *m, const model_spans *ranges, const model_spans *blocked);
/* L + P + T: adds the unused granules of the same large chunks. */
size_t model_used_granules(const model *m, const model_spans *ranges, const model_spans *blocked);
/* m: the least number of further granules for `bytes`, over all places in the ranges. A place is
 * any interval that touches no live block and no blocked span. A large chunk in use needs no
 * further granule. An unused one needs all its granules. SIZE_MAX: there is no place. */
size_t model_least_further(const model *m, const model_spans *ranges, const model_spans *blocked,
                           uint64_t bytes);
/* m in a fresh range. */
static inline size_t model_fresh(const model *m, uint64_t bytes)
{
    return (size_t)((model_round(bytes) + m->granule_bytes - 1) / m->granule_bytes);
}

#endif
