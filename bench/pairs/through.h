/* through.h - the allocators whose pairs `pleat bench pairs` compares: the rows of its table.
 *
 * Each is reached by two calls through a pointer, so that all of them pay the same for being
 * called. pleat's own code is in the command; PyTorch's and mimalloc's are loaded where they are
 * found. Device memory is the simulator's, for PyTorch through pleat's simulated CUDA runtime. */
#ifndef PLEAT_BENCH_PAIRS_THROUGH_H
#define PLEAT_BENCH_PAIRS_THROUGH_H

#include "api/pleat.h"
#include "bench/base/failure.h"

enum { BENCH_THROUGH_MOST = 16 };

typedef enum bench_through_stream {
    BENCH_THROUGH_LEGACY,  /* the legacy default stream */
    BENCH_THROUGH_CREATED, /* non-blocking streams */
    BENCH_THROUGH_HOST,    /* memory of the host, which has no streams */
    BENCH_THROUGH_PINNED,  /* pinned memory of the host, which no stream has used */
    BENCH_THROUGH_USED,    /* the same, used by a non-blocking stream before it is freed */
} bench_through_stream;

typedef struct bench_through bench_through;
typedef struct bench_through_kind bench_through_kind;

struct bench_through_kind {
    const char *name;
    const char *doc;
    bench_through_stream stream;
    bool is_torch;     /* ratios are taken to such a row with the same kind of stream */
    bool is_on_demand; /* takes long to load: only where it is named, with --all or --host (of which
                        * those that a stream uses are named) */
    const char *conf;  /* of an instance of its own; NULL = none */
    /* Called once, before any process is forked: loads what is needed. False and the reason why the
     * row is left out. NULL = nothing to load. */
    bool (*load)(const bench_through_kind *kind, bench_failure *failure);
    bool (*open)(bench_through *through, bench_failure *failure);
};

struct bench_through {
    const bench_through_kind *kind;
    pleat_devptr (*alloc)(const bench_through *through, uint64_t bytes, void *stream); /* or 0 */
    bool (*release)(const bench_through *through, pleat_devptr ptr, void *stream);
    void (*enter)(void); /* to be called in each further thread; NULL = nothing */
    pleat instance;
    bool has_instance; /* the holds of its locks and its driver calls can be told */
};

/* The n-th kind; NULL at the end. */
const bench_through_kind *bench_through_kind_at(unsigned index);
const bench_through_kind *bench_through_find(const char *name, size_t n);

/* Pinned memory is compared with pinned memory only. */
static inline bool bench_through_is_pinned(const bench_through_kind *kind)
{
    return kind->stream == BENCH_THROUGH_PINNED || kind->stream == BENCH_THROUGH_USED;
}

/* Set the environment of a process that opens some: all use one simulated GPU, of 8 TiB, or of 64
 * TiB if that `is_large`, so that none runs short; if it `is_pinned`, a simulated host of 1 TiB.
 * `conf` is laid over the defaults of all of pleat's instances. */
void bench_through_prepare(const char *conf, bool is_large, bool is_pinned);
/* Open a row in the calling process, which is used for nothing else and ends without closing it. */
bool bench_through_open(const bench_through_kind *kind, bench_through *out, bench_failure *failure);
/* Writes why the last call failed; returns false. */
bool bench_through_say(const bench_through *through, const char *what, bench_failure *failure);

/* PyTorch's rows (torch.c) and malloc's (host.c). */
bool bench_torch_load(const bench_through_kind *kind, bench_failure *failure);
bool bench_torch_open(bench_through *through, bench_failure *failure);
const char *bench_torch_version(void); /* NULL when it was not loaded */
bool bench_mimalloc_load(const bench_through_kind *kind, bench_failure *failure);
bool bench_mimalloc_open(bench_through *through, bench_failure *failure);
bool bench_glibc_open(bench_through *through, bench_failure *failure);

#endif
