/* space_state.h - what the pleat allocator knows of one device, in parts. Guarded by the lock. */
#ifndef PLEAT_SEGMENTS_SPACE_STATE_H
#define PLEAT_SEGMENTS_SPACE_STATE_H

#include <stdatomic.h>

#include "segments/base/allocator.h"
#include "segments/base/ptrmap.h"
#include "segments/base/rounding.h"
#include "segments/base/stats.h"
#include "segments/pleat/space/area.h"
#include "segments/pleat/space/block.h"
#include "segments/pleat/space/lane.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/options.h"
#include "segments/pleat/space/segment.h"
#include "vmm/base/lock.h"

enum { PL_BLOCK_QUANTUM = 512, PL_N_BUFFER_SIZES = 64 };

/* Memory that a thread works on while the lock is dropped: in no index and no queue. A request that
 * finds no memory waits until all earlier flights have landed. */
typedef struct pl_flying {
    struct pl_flying *prev;
    struct pl_flying *next;
    uint64_t number; /* in order of taking off */
} pl_flying;

/* What a thread does for the tick of the context: one thread at a time. */
typedef enum pl_context_phase {
    PL_CONTEXT_AT_REST,
    PL_CONTEXT_BUSY,          /* queries the tick, or is about to record one */
    PL_CONTEXT_GATHERING,     /* waits for a moment to record one: see capturers.h */
    PL_CONTEXT_HOLDING,       /* the same, and keeps capturers inside their calls */
    PL_CONTEXT_RECORDING,     /* records one: no capture may begin */
    PL_CONTEXT_SYNCHRONIZING, /* the same, and may take long: see context.c */
} pl_context_phase;

/* The tick of the whole context, which covers every lane's stamps up to its number. At most one
 * tick is recorded and has not passed. */
typedef struct pl_context {
    pl_clock clock; /* PL_BLOCK_SHARED whose present demand is on the context wait for it */
    pl_tick tick;   /* fence NULL = none */
    pl_context_phase phase;
    bool is_unsupported; /* the driver has no event of the context */
    bool is_wanted;      /* some memory needs a tick of the context */
    unsigned n_refused;  /* attempts in a row that met an unknown capture */
    unsigned n_missed;   /* attempts in a row that found no good moment */
    uint64_t call;       /* n_calls at the last attempt to record */
    size_t gone_bytes;   /* of gone or silent lanes and released pools, not covered */
} pl_context;

/* With more lanes, lanes without references are given up. Their streams may be gone or not: drivers
 * do not tell, and a handle may never come again. Builds that walk everything have tests with few
 * streams. There the number is small, so that these tests run the code. */
enum { PL_CROWD = PLEAT_DEBUG_LEVEL >= 2 ? 64 : 1024 };

enum { PL_CAPTURE_HEADS = 1024, PL_MOST_CAPTURERS = 32 };

/* A thread that was seen making captures: see capturers.h. */
typedef struct pl_capturer {
    struct pl_thread_life *life; /* held */
    bool is_inside;              /* in a call that found the thread's stream at rest */
    uint64_t seen_ms;            /* when the thread was last seen capturing */
    uint64_t missed_ms; /* since when the thread is known to be in no call; 0 = not known */
} pl_capturer;

/* Chunks of an order that are mapped nowhere, with room for all chunks of the device. */
typedef struct pl_idle {
    pl_chunk *chunks;
    size_t n;
} pl_idle;

/* Chunks of a compaction that are mapped in `scratch`, and nowhere else. They count as pinned. */
typedef struct pl_scratched {
    pl_chunk chunks[1 << PL_MOST_ORDER];
    uint8_t orders[1 << PL_MOST_ORDER];
    size_t n;
    size_t n_granules;
} pl_scratched;

/* Granules at [from, from + 2^PL_MOST_ORDER), of one chunk or several, without a mapping:
 * split.c. */
typedef struct pl_torn {
    pl_segment *segment; /* NULL = nothing is torn */
    size_t from;
    bool is_unmapped[1 << PL_MOST_ORDER];
} pl_torn;

/* The memory of blocks, and the live ones.
 * I1  the live map holds exactly the live blocks, by base, except those of buffers
 * I7  the statistics of live blocks and the tally of all blocks equal a recount */
typedef struct pl_space_blocks {
    pl_block_store store;
    pl_ptrmap live;
    size_t n_in_buffers;  /* live blocks in buffers: not in the live map */
    pl_usages usages;     /* of live blocks */
    pl_block_queue stale; /* I5 */
    size_t n_refused;     /* blocks in it that the driver refused to unmap */
    unsigned n_unmapping; /* threads that try to unmap stale addresses: these are not queued */
} pl_space_blocks;

/* The lanes, and the ticks that say which freed memory is ready.
 * I8  each lane counts what refers to it (lane.h, I4), and each area its blocks in use (n_used) */
typedef struct pl_space_streams {
    pl_lane **lanes; /* by number - 1; NULL = no lane */
    size_t capacity; /* of `lanes` */
    uint32_t n_lanes;
    uint32_t looked_at;    /* index in `lanes`: where the search for gone lanes stopped */
    pl_lane_ring busy;     /* lanes with pending or shared blocks */
    pl_lane_ring ticking;  /* lanes with recorded ticks */
    uint64_t newest_stamp; /* that a free may carry */
    uint64_t n_turns;      /* the last number given to a turn: see pl_lane.tried_turn */
    uint64_t short_call;   /* n_calls when a request last needed pending memory; 0 = never */
    pl_context context;
    size_t n_pending_bytes;         /* of all lanes: the lines PL_LINE_PENDING */
    size_t n_private_pending_bytes; /* the lines PL_LINE_PRIVATE */
    size_t n_shared_bytes;          /* PL_BLOCK_SHARED, except private pools' blocks */
    size_t n_private_shared_bytes;  /* PL_BLOCK_SHARED of private pools */
} pl_space_streams;

/* Addresses: segments, their areas, and the keepers that own areas.
 * I4  every free block is indexed as run.h says
 * I5  each queue holds the blocks that its name says; stale blocks are in `stale`, holes in
 *     the `holes` of their area */
typedef struct pl_space_places {
    pl_area *areas[PL_N_CLASSES][PL_MOST_AREAS]; /* the default pool's; NULL = none yet */
    unsigned n_areas[PL_N_CLASSES];
    struct pl_area_list closed[PL_N_BUFFER_SIZES]; /* areas of closed buffers, by size: buffer.h */
    pl_area *noted;                                /* closed buffers without memory: buffer.h */
    size_t n_noted;                                /* in `noted` */
    size_t n_buffers;                              /* open buffers */
    struct pl_keeper_list keepers;                 /* not yet released */
    uint64_t n_keepers_made;
    struct pl_keeper *draining; /* released pools whose graphs may still run; oldest first */
    struct pl_keeper *last_draining;
    pl_area *released; /* areas of former keepers */
    pl_area *last_released;
    pl_tree segments;    /* by address */
    size_t n_walking;    /* walks over segments that may drop the lock: no segment goes */
    pl_segment *opening; /* the first of the list of opening segments */
} pl_space_places;

/* Captures whose graphs may run, and the threads that capture: see capture.h. */
typedef struct pl_space_captures {
    struct pl_capture_list by_id[PL_CAPTURE_HEADS];
    struct pl_capture_list all;
    struct pl_capture_list under_way; /* not known to have ended */
    struct pl_capture *looked_up;     /* the next to be checked for a gone graph; NULL = all were */
    struct pl_participant *by_handle[PL_CAPTURE_HEADS];
    size_t n;
    size_t n_capturing;        /* captures not known to have ended */
    _Atomic size_t n_expected; /* atomic, written under the lock: announced captures not yet over */
    size_t n_disowned;         /* disowned captures: their graphs may still run */
    uint64_t newest;           /* number of the newest capture; 0 = none was seen yet */
    uint64_t n_graphs_gone;    /* graphs gone when the look through all captures began;
                                * UINT64_MAX: another look is due */
    pl_capturer capturers[PL_MOST_CAPTURERS];
    unsigned n_capturers;
} pl_space_captures;

/* Memory held from the driver, in granules.
 * I2  when nothing is in flight, n_creating == 0 and n_held == n_idle + n_loose + n_pinned
 * I3  n_loose is the sum over the segments; n_pinned counts the granules with a chunk that are not
 *     loose; peak_pinned >= n_pinned
 * I6  n_held x granule_bytes <= the limit, if one is set and no limit is being set */
typedef struct pl_space_chunks {
    pl_idle idle[PL_N_ORDERS];
    size_t n_idle;     /* granules of these */
    size_t n_held;     /* granules held from the driver: mapped, idle or in flight */
    size_t n_creating; /* being created */
    size_t n_pinned;   /* resident granules that are not loose, and those that flights reserved */
    size_t n_flying;   /* of n_pinned, used by nothing but requests in flight */
    size_t n_loose;
    size_t n_asleep; /* granules without a chunk under sleeping heaps: sleep.h */
    size_t peak_pinned;
    size_t peak_shown; /* the peak of n_pinned since the peaks of the statistics were reset */
    size_t peak_held;
    size_t full_at;          /* the driver refused further chunks at this count; SIZE_MAX = never */
    uint64_t full_call;      /* n_calls at that refusal */
    uint64_t limit_bytes;    /* 0 = none */
    size_t limit_granules;   /* SIZE_MAX = no limit set */
    bool is_limiting;        /* a call sets a limit now: the limit may still be exceeded */
    size_t total_granules;   /* const: of the device */
    size_t reserve_granules; /* const: left to others, see policy.h */
    size_t n_others;         /* granules of others when the driver was last asked */
    size_t ask_free_at;      /* ask the driver again from this n_held on */
    size_t n_unmoved;        /* tied granules that the last compaction has left */
    uint64_t n_takes;        /* chunks that were taken and buy slack: see policy.h */
    uint64_t n_taken;        /* granules of the chunks taken so far */
    uint64_t n_released;     /* granules given back so far */
} pl_space_chunks;

/* Work that is done while the lock is dropped. Of compactions, sleeps and wakes: one at a time. */
typedef struct pl_space_flights {
    pl_cond landed;     /* a flight has landed */
    unsigned n_waiting; /* threads that wait for `landed` */
    pl_flying *first;
    pl_flying *last;
    unsigned n;           /* in the list; also the live blocks that a restore will make */
    uint64_t n_taken_off; /* flights so far */
    bool is_moving;       /* a flight moves live blocks: see pl_space_begin_move */
    bool is_compacting;   /* or a heap falls asleep or wakes: see still.h */
    bool is_scratch_busy; /* copies into `scratch` may still run */
    pl_range scratch;     /* addresses where a compaction copies; bytes 0 = none */
    size_t scratch_bytes; /* bytes that may still be mapped in `scratch`: an unmapping failed */
    pl_scratched scratched;
    pl_torn torn; /* while something is, no request is served */
} pl_space_flights;

typedef struct pl_space {
    pl_allocator base; /* first member */
    pl_device *dev;    /* const */
    pl_meta meta;
    pl_lock lock;             /* rank 20 */
    pl_pleat_options options; /* const */
    pl_observer *observer;    /* const */
    uint32_t wait_ms;         /* const */
    size_t granule_bytes;     /* const */
    unsigned granule_log2;    /* const */
    size_t small_bytes;       /* const: requests below go to the small area */
    pl_space_blocks blocks;
    pl_space_streams streams;
    pl_space_places places;
    pl_space_captures captures;
    pl_space_chunks chunks;
    pl_space_flights flights;
    uint64_t n_calls;  /* allocations and frees so far */
    uint64_t n_pieces; /* pieces of work so far: of runs, of a pl_pace, and pl_space_work */
    bool is_rounding;  /* requests are made larger: pl_space_round */
    unsigned roundup_divisions[PL_N_DIVISIONS]; /* of requests: pl_space_round */
} pl_space;

#endif
