/* words.h - the keys and texts of PyTorch's snapshots that are asked for. */
#ifndef PLEAT_BENCH_WORDS_H
#define PLEAT_BENCH_WORDS_H

/* The actions, in the order of bench_snapshot_action, come first. */
#define BENCH_WORD_LIST(X)                                                                         \
    X(ALLOC, "alloc")                                                                              \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(OOM, "oom")                                                                                  \
    X(SNAPSHOT, "snapshot")                                                                        \
    X(SEGMENTS, "segments")                                                                        \
    X(DEVICE_TRACES, "device_traces")                                                              \
    X(SETTINGS, "allocator_settings")                                                              \
    X(CUDA_ALLOC_CONF, "PYTORCH_CUDA_ALLOC_CONF")                                                  \
    X(ALLOC_CONF, "PYTORCH_ALLOC_CONF")                                                            \
    X(EXPANDABLE_SEGMENTS, "expandable_segments")                                                  \
    X(IS_EXPANDABLE, "is_expandable")                                                              \
    X(DEVICE, "device")                                                                            \
    X(ADDRESS, "address")                                                                          \
    X(ADDR, "addr")                                                                                \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(SIZE, "size")                                                                                \
    X(STREAM, "stream")                                                                            \
    X(ACTION, "action")                                                                            \
    X(STATE, "state")                                                                              \
    X(BLOCKS, "blocks")                                                                            \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(SEGMENT_TYPE, "segment_type")                                                                \
    X(SMALL, "small")                                                                              \
    X(SEGMENT_POOL_ID, "segment_pool_id")                                                          \
    X(PLEAT_ALLOCATOR, "pleat_allocator")                                                          \
    X(MOST_ENTRIES, "trace_alloc_max_entries")                                                     \
    X(OVERFLOWED, "trace_alloc_overflowed")                                                        \
    X(FRAMES, "frames")                                                                            \
    X(FILENAME, "filename")                                                                        \
    X(LINE, "line")                                                                                \
    X(NAME, "name")                                                                                \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(ACTIVE, "active")                                                                            \
    X(ACTIVE_PENDING_FREE, "active_pending_free")                                                  \
    X(ACTIVE_AWAITING_FREE, "active_awaiting_free")

typedef enum bench_word {
#define X(name, text) BENCH_WORD_##name,
    BENCH_WORD_LIST(X)
#undef X
        BENCH_N_WORDS
} bench_word;

/* By the enum, with NULL at the end. */
extern const char *const bench_words[BENCH_N_WORDS + 1];

#endif
