/* allocator.h - the interface of every allocator: pleat itself and the classic caches.
 *
 * A pl_allocator manages one device. Addresses are numbers. Any thread may call any function. An
 * allocator guards itself with its lock (rank 20) and holds no lock across driver calls or
 * callbacks. After a failure the live blocks, the statistics of allocated and active bytes, and the
 * limits are as before the call. Resident memory may differ. */
#ifndef PLEAT_SEGMENTS_ALLOCATOR_H
#define PLEAT_SEGMENTS_ALLOCATOR_H

#include "segments/base/allocator_list.h"
#include "segments/base/heap_figures.h"
#include "segments/base/observer.h"
#include "segments/base/option.h"
#include "segments/base/roster.h"
#include "vmm/base/pleat_types.h"
#include "vmm/device.h"
#include "vmm/share.h"
#include "vmm/streams/stream.h"

typedef struct pl_allocator pl_allocator;
typedef struct pl_keeper pl_keeper; /* a private pool, or the memory of a tag */

enum { PL_OWN_BYTES = 512 };

/* The options of every allocator, and the options that only some allocators know. */
typedef struct pl_allocator_options {
    uint64_t limit_bytes;  /* most resident bytes; 0 = none set */
    uint32_t wait_ms;      /* bound on the host's waiting in a whole call; 0 = never wait */
    pl_observer *observer; /* told of all actions; NULL = nobody */
    /* Requests are made larger (rounding.h): of pleat and the models of PyTorch. */
    unsigned roundup_divisions[PL_N_DIVISIONS];
    unsigned char own[PL_OWN_BYTES]; /* the structs of all option tables: pl_own_get */
} pl_allocator_options;

void pl_allocator_options_init(pl_allocator_options *options); /* the defaults */

/* The option tables of the listed allocators, each table once. NULL at the end. */
const pl_option_table *pl_option_table_at(unsigned index);
/* Where in pl_allocator_options the struct of `table` begins. */
size_t pl_own_offset(const pl_option_table *table);
/* Copy the struct out and in. Always copy, and never point into `own`. These bytes have no declared
 * type, so a compiler may drop writes through a pointer. */
void pl_own_get(const pl_allocator_options *options, const pl_option_table *table, void *own);
void pl_own_set(pl_allocator_options *options, const pl_option_table *table, const void *own);

/* The state of a stretch of an allocator's addresses. */
typedef enum pl_piece_kind {
    PL_PIECE_LIVE,
    PL_PIECE_PENDING, /* freed, but not yet usable by every stream */
    PL_PIECE_FREE,    /* resident, and usable by any request of its stream */
    PL_PIECE_HOLE,    /* addresses without memory, between resident pieces of one segment */
} pl_piece_kind;

typedef struct pl_piece {
    pleat_devptr base;
    uint64_t bytes;
    uint64_t requested_bytes;    /* of a live block; else 0 */
    uint64_t awaited_bytes;      /* pending, until FREE_COMPLETED is told: as requested; else 0 */
    pl_stream *stream;           /* the owner's, or the stream it pends on; NULL = nobody's */
    pl_stream *segment_stream;   /* the stream that the segment serves first; NULL = none */
    const pl_keeper *private_in; /* NULL = the default pool */
    const char *tag;             /* of the segment, valid as long as the process; NULL = none */
    pl_piece_kind kind;
    bool is_asleep; /* the tag sleeps, so the address may have no memory */
    bool is_first;  /* the piece is the first of a segment */
    bool is_small;  /* the segment is for small requests only */
} pl_piece;

typedef enum pl_buffer_what {
    PL_BUFFER_RESIZE,   /* to `bytes` */
    PL_BUFFER_COMMIT,   /* the pages that overlap [offset, offset + bytes) */
    PL_BUFFER_DECOMMIT, /* the pages inside [offset, offset + bytes), and the last one at the
                         * buffer's end */
    PL_BUFFER_RECORD,   /* the stream uses the pages that are committed now */
    PL_BUFFER_CLOSE,
} pl_buffer_what;

typedef struct pl_buffer_change {
    pl_buffer_what what;
    pleat_devptr base; /* of the buffer */
    uint64_t offset;
    uint64_t bytes;
} pl_buffer_change;

/* Live memory, and where it begins in a list of chunks laid side by side. */
typedef struct pl_shared_block {
    pleat_devptr base;
    uint64_t bytes;
    uint64_t offset;
} pl_shared_block;

/* The chunks under live memory, ordered by address, each listed once. Beyond the capacities chunks
 * and blocks are only counted. */
typedef struct pl_share_list {
    pl_shared_chunk *chunks;
    pl_shared_block *blocks;
    size_t most_chunks;
    size_t most_blocks;
    size_t n_chunks;
    size_t n_blocks;
    bool is_look; /* the chunks are not shared and have no numbers */
} pl_share_list;

/* The options of PyTorch's cache that statistics, snapshots and error texts show. 0 = not set. */
typedef struct pl_cache_options {
    uint64_t max_split_bytes; /* blocks this big are not split */
    double garbage_collection_threshold;
    double memory_fraction; /* of the device: a further limit */
} pl_cache_options;

/* Bytes of free memory in chunks that are partly in use. */
typedef struct pl_tied {
    uint64_t to_win; /* what a compaction would give back, if nothing forbids it */
    uint64_t frugal; /* what would be tied if each chunk were four, as with growth:frugal */
} pl_tied;

/* Private pools. A pool's memory is reused only within the pool, also by a stream that is being
 * captured (in that stream's order). Until the pool is released, none of its memory is remapped,
 * unmapped or given back. Its blocks are allocated by alloc_asked, and freed, recorded and queried
 * like all blocks. */
typedef struct pl_pool_ops {
    pleat_status (*open)(pl_allocator *a, pl_keeper **out); /* ENOMEM_HOST */
    /* A capture that used the pool has ended, so frees made during the capture can be fenced
     * now. */
    void (*rest)(pl_allocator *a, pl_keeper *pool);
    /* End the pool; the pointer becomes invalid. Its free memory is usable by every request now.
     * Memory of its live blocks follows when they are freed. */
    void (*release)(pl_allocator *a, pl_keeper *pool);
    /* The number of captures that allocated in the pool, if none of their graphs can run or be
     * launched again; else 0. */
    uint64_t (*gone)(pl_allocator *a, pl_keeper *pool);
    void (*reserved)(pl_allocator *a, pl_keeper *pool, pleat_stat out[PLEAT_N_SIZES]);
    /* Checkpoints. List a pool's live blocks by address. The roster refers to the blocks' owners
     * until drop_roster. ENOMEM_HOST. */
    pleat_status (*save)(pl_allocator *a, pl_keeper *pool, pl_roster *out);
    /* Make the pool's live blocks exactly the roster's, in one step for every caller. The caller
     * lets no request of the pool run meanwhile. is_settled: all uses of the pool's free memory are
     * over. EPOOL (roster of another pool). EPENDING. EPOISONED. ENOMEM_HOST. After a failure all
     * is as before, and out->odd is the address at fault. After success the caller drops both
     * rosters of *out. */
    pleat_status (*restore)(pl_allocator *a, pl_keeper *pool, const pl_roster *saved,
                            bool is_settled, pl_restored *out);
    void (*drop_roster)(pl_allocator *a, pl_roster *roster);
    /* Allocate a block of the pool at `base`, a multiple of 512, as alloc does. EFOREIGN (the pool
     * has no memory there). EBUSY (a block lives there). ECAPTURE (the stream is being captured).
     * EPENDING; ENOMEM_HOST; EDRIVER. */
    pleat_status (*alloc_at)(pl_allocator *a, pl_keeper *pool, pleat_devptr base, size_t bytes,
                             pl_stream *stream);
} pl_pool_ops;

/* Buffers: reserved addresses whose pages get and lose memory. */
typedef struct pl_buffer_ops {
    /* In a heap, the buffer's pages are blocks of the heap. heap NULL = no heap. align_bytes: 0, or
     * a power of two. ENOSPACE_VA; EASLEEP; ENOMEM_HOST; EDRIVER. */
    pleat_status (*open)(pl_allocator *a, pl_keeper *heap, size_t most_bytes, size_t page_bytes,
                         size_t align_bytes, pleat_devptr *out);
    /* EFOREIGN (no buffer begins at `base`). EINVAL (beyond most_bytes). ECAPTURE. EPOISONED. The
     * errors of alloc. A failed change leaves the committed pages and the buffer's size alone. */
    pleat_status (*change)(pl_allocator *a, const pl_buffer_change *change, pl_stream *stream);
    /* `ptr` is any address in the buffer, with memory or without. EFOREIGN. */
    pleat_status (*query)(pl_allocator *a, pleat_devptr ptr, pleat_buffer_info *out);
} pl_buffer_ops;

/* Heaps: memory for the blocks of a tag, which lie together. Requests name
 * the heap in alloc_asked. A heap's free memory is for every request. */
typedef struct pl_tag_ops {
    /* A heap stays until the allocator is destroyed. ENOMEM_HOST. */
    pleat_status (*open)(pl_allocator *a, const char *tag, pl_keeper **out);
    /* The most rounded bytes of the heap's live blocks; 0 = no limit. A limit below the live bytes
     * is allowed: the heap then gets no further blocks. */
    void (*set_limit)(pl_allocator *a, pl_keeper *heap, uint64_t bytes);
    void (*read)(pl_allocator *a, pl_keeper *heap, pl_heap_figures *out);
    /* Give the heap's memory back to the driver; addresses and blocks stay, contents as `how` says.
     * First waits for all work of the device. From the call on, no work may be submitted on the
     * heap's blocks. EASLEEP (already asleep); ECAPTURE; EPENDING; ENOMEM_HOST; EWRITE; ENOTSUP;
     * EDRIVER. After these the heap is awake as before. EPOISONED: the heap is asleep, but some of
     * its memory did not go back. */
    pleat_status (*sleep)(pl_allocator *a, pl_keeper *heap, const pl_sleep_how *how, pl_slept *out);
    /* Give the heap's live blocks memory again, with their contents, in the order of addresses.
     * This call brings at most most_bytes; 0 = all. A heap that is awake stays awake.
     * ENOMEM_DEVICE; EPENDING; ENOMEM_HOST; EWRITE; EDRIVER; EPOISONED. After these the heap is
     * asleep as before, and out->needed_bytes tells how much memory was missing. While
     * out->left_bytes is not 0, the heap counts as asleep. */
    pleat_status (*wake)(pl_allocator *a, pl_keeper *heap, uint64_t most_bytes, pl_slept *out);
    /* pl_allocator_ops.share for all live blocks of the heap, ordered by address within each
     * segment. Blocks that come or go during the call may be in the list or not. */
    pleat_status (*share)(pl_allocator *a, pl_keeper *heap, pl_share_list *out);
    /* Shall later wakes leave the contents that a sleep stored on the host, for the next sleep? */
    void (*retain)(pl_allocator *a, pl_keeper *heap, bool is_retained);
    /* Copy the stored contents of [ptr, ptr + bytes) to `to`. If `to` is NULL, set *at to the
     * stored bytes in host memory, which are valid until the next sleep or wake. EFOREIGN (not
     * stored in full). ENOTSUP (not contiguous in host memory). EWRITE (the file cannot be
     * read). */
    pleat_status (*kept)(pl_allocator *a, pleat_devptr ptr, size_t bytes, void *to, void **at);
} pl_tag_ops;

typedef struct pl_allocator_ops {
    const char *name; /* "pleat", "torch-native", ... */
    bool needs_vmm;
    bool needs_host; /* for pinned memory of the host only, and without own options */
    const pl_option_table *options; /* NULL = no options of its own */
    /* NULL where the allocator has no such options. */
    void (*read_cache_options)(const pl_allocator_options *options, pl_cache_options *out);
    pleat_status (*create)(pl_device *dev, const pl_allocator_options *options, pl_allocator **out);
    /* Waits for fences. EBUSY and *n_live when blocks live and !force. After PLEAT_OK, or with
     * force, the object is gone. *n_leaked counts driver objects that could not be given back. */
    pleat_status (*destroy)(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked);
    /* bytes in [1, 2^60]. ENOMEM_DEVICE, EPENDING, ENOSPACE_VA, ENOMEM_HOST, EDRIVER, ... */
    pleat_status (*alloc)(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out);
    /* alloc, from a private pool or for a tag if `keeper` is not NULL, after the caller has asked
     * the driver about the stream's capture. `asked` NULL: the driver was not asked. The op is NULL
     * where the allocator has neither. */
    pleat_status (*alloc_asked)(pl_allocator *a, pl_keeper *keeper, size_t bytes, pl_stream *stream,
                                const pl_capture_info *asked, pleat_devptr *out);
    /* free and record_stream may be given a stream from pl_stream_guess. */
    bool takes_guesses;
    /* `stream` is where the caller frees. If the stream is not the owner, the free counts as a
     * recorded use. EFOREIGN; EDOUBLEFREE (where the allocator can tell). Only unpooled's free
     * blocks on the GPU. */
    pleat_status (*free)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
    /* free, when the caller has asked the driver about the stream's capture. asked NULL: see
     * alloc_asked. */
    pleat_status (*free_asked)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                               const pl_capture_info *asked);
    /* Free a block in the order of its owner's stream. The caller does not name the stream. The
     * stream may be gone, so the driver does not get its handle. Returns as `free`. NULL: callers
     * use `free` with the stream from `query`. */
    pleat_status (*free_own)(pl_allocator *a, pleat_devptr ptr);
    pleat_status (*record_stream)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
    /* Any address inside a live block. EFOREIGN. */
    pleat_status (*query)(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out);
    /* List the chunks under live memory and mark them as shared. Shared chunks are never moved
     * again. The memory is `bytes` from `ptr` on, in one block or in committed pages of one buffer.
     * If `bytes` is 0, the memory reaches to the block's end or to the first uncommitted page.
     * EFOREIGN (not live in full). EASLEEP. ENOTSUP (not exportable). ENOMEM_HOST. NULL: this
     * allocator's memory cannot be shared. */
    pleat_status (*share)(pl_allocator *a, pleat_devptr ptr, uint64_t bytes, pl_share_list *out);
    /* Give memory back to the driver until at most keep_bytes are resident or nothing free is left.
     * Waits for fences only if `wait`, pleat at most wait_ms. */
    pleat_status (*trim)(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released);
    /* 0 = none. Gives back free memory above the limit. ENOMEM_DEVICE if live granules exceed the
     * limit; the old limit then stays. */
    pleat_status (*set_limit)(pl_allocator *a, uint64_t bytes);
    /* From now on round requests up by these checked divisions (rounding.h). NULL where the
     * rounding cannot change. */
    void (*set_rounding)(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS]);
    /* Move live blocks together and give the emptied memory back. If `request` is not 0, only where
     * a request of as many bytes is short and can get enough that way. The caller lets no work run
     * or be submitted until the call returns. Writes *out on success. After a failure, too, such a
     * request may be served: it uses the reserve now. NULL where nothing can be moved.
     * EBUSY: is_observed, so mappings must stay. ECAPTURE: a capture is known. ENOMEM_DEVICE: too
     * little can be won for the request. EPENDING. ENOTSUP. EDRIVER. EPOISONED: an undo failed. */
    pleat_status (*compact)(pl_allocator *a, size_t request, bool is_observed,
                            pleat_compaction *out);
    /* Count what is tied: see pl_tied. Walks over all chunks. NULL: nothing is tied. */
    void (*count_tied)(pl_allocator *a, pl_tied *out);
    /* Blocks freed while `stream` was captured may be used again: the graph is gone, and perhaps
     * the stream. */
    pleat_status (*release_capture)(pl_allocator *a, pl_stream *stream);
    /* Instead of release_capture, where streams that may be gone can be named: the handle of a
     * stream that took part in the capture. If several captures had the stream, the oldest is
     * released. One of the two is NULL. */
    pleat_status (*release_capture_of)(pl_allocator *a, void *handle);
    /* From now on a capture that has ended keeps only memory of private pools. NULL: the
     * allocator cannot do this. */
    void (*let_captures_go)(pl_allocator *a);
    /* Captures may begin from now on (true), or no more (false). Calls pair. In between the
     * allocator makes no call that breaks captures. NULL where the allocator makes none. */
    void (*expect_captures)(pl_allocator *a, bool is_expected);
    /* The stream is about to be destroyed, or has been. Fence the frees on the stream while that is
     * possible, then let go of the stream (pl_stream_put). NULL where streams are kept. */
    void (*retire_stream)(pl_allocator *a, pl_stream *stream);
    const pl_pool_ops *pools;     /* NULL where the allocator has no private pools */
    const pl_buffer_ops *buffers; /* NULL where it has no buffers */
    const pl_tag_ops *tags;       /* NULL where it has no heaps */
    /* All figures except num_ooms, which stays 0. Only the caller knows whether a refused request
     * is repeated, so the caller counts the final failures. */
    void (*stats)(pl_allocator *a, pleat_stats *out);
    void (*reset_peaks)(pl_allocator *a);
    /* Call `see` for every piece: segment by segment, by address, without gaps inside a segment.
     * The lock is held: `see` calls no allocator and does not block. */
    void (*visit)(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                  void *context);
    /* `visit` for the next few pieces, in one hold of the lock. *from is the first address to
     * report, 0 at first; the call moves *from to the next piece. Each piece has its state during
     * the hold. A piece that came to reach across *from since the last call is left out. Then the
     * next piece is marked as the first of a segment. False: no more pieces. NULL: the allocator is
     * only visited at once. */
    bool (*visit_some)(pl_allocator *a, pleat_devptr *from,
                       void (*see)(void *context, const pl_piece *piece), void *context);
    /* Every walker; 0, or the number of the first broken invariant. */
    int (*check)(pl_allocator *a);
} pl_allocator_ops;

struct pl_allocator {
    const pl_allocator_ops *ops; /* const; the first member of every allocator */
};

/* All are 0 where the allocator has none. */
pl_cache_options pl_cache_options_of(const pl_allocator_ops *ops,
                                     const pl_allocator_options *options);

/* The allocator called `name`, or NULL. pl_allocator_name(0), (1), ... lists all names up to NULL.
 * pl_host_allocator_name lists the allocators for pinned memory only. */
const pl_allocator_ops *pl_allocator_find(const char *name);
const char *pl_allocator_name(unsigned index);
const char *pl_host_allocator_name(unsigned index);

#define PL_DECLARE_ALLOCATOR(ops) extern const pl_allocator_ops ops;
PL_ALLOCATOR_LIST(PL_DECLARE_ALLOCATOR)
PL_HOST_ALLOCATOR_LIST(PL_DECLARE_ALLOCATOR)
#define PL_ALLOCATOR_ADDRESS(ops) &ops,
extern const pl_allocator_ops *const pl_allocators[]; /* the list; NULL at the end */

#endif
