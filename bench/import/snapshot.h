/* snapshot.h - reads PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot), as pickles, as
 * JSON and as torch.save writes them.
 *
 * Reads one device: the recorded events in order, and the blocks at the snapshot. Accepts the
 * present form (a dictionary with settings), the older ones (segments and device_traces only;
 * entries without time), and a list of segments, which torch.cuda.memory_snapshot() returns. A
 * file may hold the snapshots of several ranks (parts.h). Each stack is kept once (stacks.h).
 * Source: PyTorch, torch/csrc/cuda/memory_snapshot.cpp and torch/csrc/cuda/Module.cpp. */
#ifndef PLEAT_BENCH_SNAPSHOT_H
#define PLEAT_BENCH_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "bench/work/inflate.h"
#include "bench/work/origin.h"

typedef enum bench_snapshot_action {
    BENCH_SNAPSHOT_ALLOC,
    BENCH_SNAPSHOT_FREE_REQUESTED,
    BENCH_SNAPSHOT_FREE_COMPLETED,
    BENCH_SNAPSHOT_SEGMENT_ALLOC,
    BENCH_SNAPSHOT_SEGMENT_FREE,
    BENCH_SNAPSHOT_SEGMENT_MAP,
    BENCH_SNAPSHOT_SEGMENT_UNMAP,
    BENCH_SNAPSHOT_OOM,
    BENCH_SNAPSHOT_TAKEN, /* "snapshot": somebody only looked */
    BENCH_SNAPSHOT_OTHER  /* annotations, unknown actions: no memory changes */
} bench_snapshot_action;

typedef struct bench_snapshot_entry {
    uint64_t address; /* of a refused request: what was free on the device */
    uint64_t bytes;
    uint64_t stream; /* the handle */
    uint32_t at;     /* offset in the file */
    uint32_t stack;  /* 1 + index; 0 = none */
    uint8_t action;
} bench_snapshot_entry;

/* A segment at the end in a private pool, as CUDA graphs have. */
typedef struct bench_snapshot_private {
    uint64_t address;
    uint64_t bytes;
    uint64_t pool; /* differs from pool to pool */
} bench_snapshot_private;

enum { BENCH_ANY_DEVICE = -1, BENCH_SNAPSHOT_CONF_BYTES = 4096 };

enum { BENCH_RANK_BYTES = 40 };
typedef char bench_rank_name[BENCH_RANK_BYTES];

typedef struct bench_snapshot {
    int device;
    bench_devices devices; /* `device` and the others */
    bench_snapshot_entry *entries;
    size_t n_entries;
    bench_snapshot_entry *live; /* at the end, in the order of the file. action: ALLOC, or
                                 * FREE_COMPLETED for a freed block that waits for streams */
    size_t n_live;
    bench_snapshot_private *privates;
    size_t n_private;
    bool has_mappings;                    /* some entry is a segment_map */
    bool has_expandable;                  /* some segment is expandable */
    bool is_expandable;                   /* according to the settings, or else to the segments */
    char conf[BENCH_SNAPSHOT_CONF_BYTES]; /* that run's PYTORCH_CUDA_ALLOC_CONF, or "" */
    char allocator[32];                   /* of a snapshot that pleat wrote, or "" */
    bool is_full;                         /* the ring is, as far as the settings tell */
    uint64_t held_bytes;                  /* of the segments at the end */
    bench_state state;                    /* all blocks at the end */
    char **stacks;                        /* texts (stacks.h) */
    uint32_t n_stacks;
} bench_snapshot;

/* `limits` may be NULL. `rank`: the part of a file with several (parts.h), or NULL. `device`: an
 * index, or BENCH_ANY_DEVICE for a device whose last request was refused, or else any, the one with
 * the most live bytes at once (weigh.h). Without events it is read without entries. False and a
 * message with file and offset. */
bool bench_snapshot_read(const char *path, const bench_limits *limits, const char *rank, int device,
                         bench_snapshot *out, bench_failure *failure);
/* The ranks of a file that holds several snapshots: *n names, each of which is a `rank`, in an
 * array to be freed. *n is 0 for a file of one, and for a file that cannot be read. */
bool bench_snapshot_ranks(const char *path, const bench_limits *limits, bench_rank_name **names,
                          unsigned *n, bench_failure *failure);

/* What the recorded run held from the driver. */
typedef struct bench_snapshot_held {
    uint64_t most_bytes;   /* maximum over all events; 0 = not in the snapshot */
    uint64_t before_bytes; /* before the first */
    bool is_consistent;    /* false: the events do not lead to the final blocks */
} bench_snapshot_held;

bench_snapshot_held bench_snapshot_read_held(const bench_snapshot *snapshot);
void bench_snapshot_free(bench_snapshot *snapshot);

#endif
