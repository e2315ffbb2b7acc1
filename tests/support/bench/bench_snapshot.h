/* bench_snapshot.h - a writer of PyTorch memory snapshots for tests.
 *
 * Writes the output of torch.cuda.memory._dump_snapshot, from a short plan, in both forms in use.
 * Protocol 2 (BINUNICODE, BINPUT, BINGET) is from PyTorch's own C++ writer; protocol 4 (FRAME,
 * SHORT_BINUNICODE, MEMOIZE) from Python's. As in CPython, repeated strings come from the memo, and
 * lists and dictionaries are filled in batches of 1,000. All entries share the same two stack
 * frames. */
#ifndef PLEAT_TESTS_BENCH_SNAPSHOT_H
#define PLEAT_TESTS_BENCH_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct snap_event {
    const char *action; /* NULL ends a list */
    uint64_t address;
    int64_t size;
    uint64_t stream;
} snap_event;

typedef struct snap_block {
    const char *state; /* NULL ends a list */
    uint64_t size;
    uint64_t requested;
} snap_block;

typedef struct snap_segment {
    const snap_block *blocks; /* in order of address; NULL ends a list */
    uint64_t address;
    uint64_t stream;
    int device;
    bool is_expandable;
    int pool; /* its segment_pool_id is (0, pool) */
} snap_segment;

enum { SNAP_MOST_DEVICES = 4 };

typedef struct snap_plan {
    int protocol;       /* 2 to 5; frames from 4 on */
    bool is_old;        /* only segments and device_traces, without times */
    bool is_expandable; /* of the settings; */
    bool lacks_setting; /* they do not tell */
    const char *conf;   /* from the settings; NULL = "" */
    int n_devices;      /* number of lists of events */
    const snap_event *events[SNAP_MOST_DEVICES]; /* NULL = none */
    const snap_segment *segments;                /* NULL = none */
} snap_plan;

/* Write into out[0..n), which must be large enough. Returns the number of bytes written. */
size_t snap_write(const snap_plan *plan, unsigned char *out, size_t n);

#endif
