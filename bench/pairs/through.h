/* through.h - the rows of the table of `pleat bench pairs`: the compared allocators.
 *
 * Each row has two calls behind pointers, so all rows pay equally for being called. The code of
 * pleat is part of the command. PyTorch and mimalloc are loaded from where they are installed.
 * Device memory is the simulator's, for PyTorch through pleat's simulated CUDA runtime. */
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
    BENCH_THROUGH_USED,    /* pinned memory, used by a non-blocking stream before its free */
} bench_through_stream;

typedef struct bench_through bench_through;
typedef struct bench_through_kind bench_through_kind;

struct bench_through_kind {
    const char *name;
    const char *doc;
    bench_through_stream stream;
    bool is_torch;     /* base of the ratios for rows with the same kind of stream */
    bool is_on_demand; /* slow to load: the row runs only if it is named, or with --all or --host.
                        * A row with a use by a stream runs only if it is named, or with --all */
    const char *conf;  /* of a separate instance; NULL = none */
    /* Load the row's libraries. Called once, before any process is forked. False and the reason for
     * leaving the row out. NULL = nothing to load. */
    bool (*load)(const bench_through_kind *kind, bench_failure *failure);
    bool (*open)(bench_through *through, bench_failure *failure);
};

struct bench_through {
    const bench_through_kind *kind;
    pleat_devptr (*alloc)(const bench_through *through, uint64_t bytes, void *stream); /* or 0 */
    bool (*release)(const bench_through *through, pleat_devptr ptr, void *stream);
    void (*enter)(void); /* called in each further thread; NULL = nothing to do */
    pleat instance;
    bool has_instance; /* lock holds and driver calls can be measured */
};

/* The n-th kind; NULL at the end. */
const bench_through_kind *bench_through_kind_at(unsigned index);
const bench_through_kind *bench_through_find(const char *name, size_t n);

/* Pinned memory is compared with pinned memory only. */
static inline bool bench_through_is_pinned(const bench_through_kind *kind)
{
    return kind->stream == BENCH_THROUGH_PINNED || kind->stream == BENCH_THROUGH_USED;
}

/* Set the environment of a process that opens rows. All rows use one simulated GPU of 8 TiB, or of
 * 64 TiB if `is_large`, so that none runs short. `is_pinned` adds a simulated host of 1 TiB. `conf`
 * is applied on top of pleat's defaults in all rows. */
void bench_through_prepare(const char *conf, bool is_large, bool is_pinned);
/* Open a row in the calling process. The process does nothing else, and ends with the row still
 * open. */
bool bench_through_open(const bench_through_kind *kind, bench_through *out, bench_failure *failure);
/* Writes why the last call failed; returns false. */
bool bench_through_say(const bench_through *through, const char *what, bench_failure *failure);

/* PyTorch's rows (torch.c) and malloc's (malloc.c). */
bool bench_torch_load(const bench_through_kind *kind, bench_failure *failure);
bool bench_torch_open(bench_through *through, bench_failure *failure);
const char *bench_torch_version(void); /* NULL when it was not loaded */
bool bench_mimalloc_load(const bench_through_kind *kind, bench_failure *failure);
bool bench_mimalloc_open(bench_through *through, bench_failure *failure);
bool bench_glibc_open(bench_through *through, bench_failure *failure);

#endif
