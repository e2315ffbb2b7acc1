/* allocator.h - the interface that every allocator implements: pleat itself and the classic caches.
 *
 * One pl_allocator manages one device. Addresses are numbers. All functions may be called from any
 * thread; an allocator guards itself (rank 20) and holds no lock across driver calls or callbacks.
 * Failures leave the state as before the call: live blocks, statistics of allocated and active
 * bytes, limits; what is resident may differ. */
#ifndef PLEAT_SEGMENTS_ALLOCATOR_H
#define PLEAT_SEGMENTS_ALLOCATOR_H

#include "segments/base/allocator_list.h"
#include "segments/base/front.h"
#include "segments/base/observer.h"
#include "segments/base/option.h"
#include "segments/base/room.h"
#include "segments/base/roster.h"
#include "vmm/base/pleat_types.h"
#include "vmm/device.h"
#include "vmm/share.h"
#include "vmm/stream.h"

typedef struct pl_allocator pl_allocator;
typedef struct pl_private pl_private; /* a private pool of one allocator */

enum { PL_OWN_BYTES = 512 };

/* What an allocator is made with: what concerns all of them, and what each alone knows. */
typedef struct pl_allocator_options {
    uint64_t limit_bytes;  /* most resident bytes; 0 = none set */
    uint32_t wait_ms;      /* most that a whole call waits on the host; 0 = never */
    pl_observer *observer; /* told of all that happens; NULL = nobody */
    /* Requests are made larger (rounding.h): of pleat and the models of PyTorch. */
    unsigned roundup_divisions[PL_N_DIVISIONS];
    unsigned char own[PL_OWN_BYTES]; /* the structs of all option tables: pl_own_get */
} pl_allocator_options;

void pl_allocator_options_init(pl_allocator_options *options); /* the defaults */

/* The tables of the listed allocators, each once; NULL at the end. */
const pl_option_table *pl_option_table_at(unsigned index);
/* Where in pl_allocator_options the bytes of that table's struct begin. */
size_t pl_own_offset(const pl_option_table *table);
/* Copy the struct out and in. It is never pointed at where it lies: to a compiler those bytes are
 * no such struct, and it would lose what is written to one. */
void pl_own_get(const pl_allocator_options *options, const pl_option_table *table, void *own);
void pl_own_set(pl_allocator_options *options, const pl_option_table *table, const void *own);

/* What a stretch of an allocator's addresses holds. */
typedef enum pl_piece_kind {
    PL_PIECE_LIVE,
    PL_PIECE_PENDING, /* freed, but of no use yet to every stream that may ask */
    PL_PIECE_FREE,    /* resident, for any request of its stream */
    PL_PIECE_HOLE,    /* addresses without memory, between others of one segment */
} pl_piece_kind;

typedef struct pl_piece {
    pleat_devptr base;
    uint64_t bytes;
    uint64_t requested_bytes;     /* live only, else 0 */
    uint64_t awaited_bytes;       /* pending, FREE_COMPLETED yet to be told: as requested; else 0 */
    pl_stream *stream;            /* the owner's, or whom it pends on; NULL = nobody's */
    pl_stream *segment_stream;    /* the stream that its segment serves first; NULL = none */
    const pl_private *private_in; /* NULL = the default pool */
    const char *tag; /* of its segment, for as long as the process lives; NULL = none */
    pl_piece_kind kind;
    bool is_asleep; /* the tag sleeps: there may be no memory at the address */
    bool is_first;  /* a segment begins here */
    bool is_small;  /* its segment is for small requests only */
} pl_piece;

typedef enum pl_buffer_what {
    PL_BUFFER_RESIZE,   /* to `bytes` */
    PL_BUFFER_COMMIT,   /* the pages that [offset, offset + bytes) touches */
    PL_BUFFER_DECOMMIT, /* those that lie in it; at the buffer's end also the last one */
    PL_BUFFER_RECORD,   /* the stream uses what is committed now */
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

/* The chunks under live memory, in the order of addresses, each once. What is beyond the capacities
 * is only counted. */
typedef struct pl_share_list {
    pl_shared_chunk *chunks;
    pl_shared_block *blocks;
    size_t most_chunks;
    size_t most_blocks;
    size_t n_chunks;
    size_t n_blocks;
    bool is_look; /* they are not shared, and have no numbers */
} pl_share_list;

typedef struct pl_allocator_ops {
    const char *name; /* "pleat", "torch-native", ... */
    bool needs_vmm;
    bool needs_host; /* it is for pinned memory of the host only, and has no options of its own */
    const pl_option_table *options; /* its own; NULL = it has none */
    pleat_status (*create)(pl_device *dev, const pl_allocator_options *options, pl_allocator **out);
    /* Waits for fences. EBUSY and *n_live when blocks live and !force. After PLEAT_OK or with force
     * the object is gone; *n_leaked = driver objects that could not be given back. */
    pleat_status (*destroy)(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked);
    /* bytes in [1, 2^60]. ENOMEM_DEVICE, EPENDING, ENOSPACE_VA, ENOMEM_HOST, EDRIVER, ... */
    pleat_status (*alloc)(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out);
    /* alloc, or private_alloc where a pool is named, in a call in which the driver was asked about
     * the stream's capture; NULL: the allocator asks where its original does. */
    pleat_status (*alloc_asked)(pl_allocator *a, pl_private *pool, size_t bytes, pl_stream *stream,
                                const pl_capture_info *asked, pleat_devptr *out);
    /* alloc on the stream of the calling thread's front, which has just had nothing for it; the
     * front may have been unbound since. asked: as in alloc_asked, or NULL = nobody was. NULL where
     * the allocator has no fronts. */
    pleat_status (*alloc_past)(pl_allocator *a, pl_front *front, size_t bytes, pl_stream *stream,
                               const pl_capture_info *asked, pleat_devptr *out);
    /* free and record_stream may be given a stream from pl_stream_guess. */
    bool takes_guesses;
    /* `stream`: where the caller frees; another than the owner counts as a recorded use.
     * EFOREIGN, EDOUBLEFREE (where it can tell). Never blocks on the GPU; unpooled's does. */
    pleat_status (*free)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
    /* free, in a call in which the driver was asked about the stream's capture; NULL: see
     * alloc_asked. */
    pleat_status (*free_asked)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                               const pl_capture_info *asked);
    /* Free a block in the order of its owner's stream, which the caller does not name and which may
     * be gone: its handle does not go to the driver. Returns as `free`. NULL: `free` with the
     * stream that `query` tells is the way. */
    pleat_status (*free_own)(pl_allocator *a, pleat_devptr ptr);
    /* Bind the calling thread's front, which is not bound, to the stream: its alloc and free are
     * set; later the allocator may unbind it at any time. False: not now. And unbind it, if it is
     * bound to this allocator. NULL where the allocator has no fronts. */
    bool (*front_bind)(pl_allocator *a, pl_front *front, pl_stream *stream, uint64_t key);
    void (*front_unbind)(pl_allocator *a, pl_front *front);
    pleat_status (*record_stream)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
    /* Any address inside a live block. EFOREIGN. */
    pleat_status (*query)(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out);
    /* List the chunks under live memory, as shared from now on: they are not moved any more. That
     * is `bytes` from the address on, of one block or of committed pages of one buffer; 0: up to
     * the block's end, or to the first page that is not committed. EFOREIGN (not all of it lives);
     * EASLEEP; ENOTSUP (not exportable); ENOMEM_HOST. NULL: this allocator's memory cannot be
     * shared. */
    pleat_status (*share)(pl_allocator *a, pleat_devptr ptr, uint64_t bytes, pl_share_list *out);
    /* Give memory back to the driver until at most keep_bytes are resident or nothing free is left.
     * Waits for fences only if `wait`, pleat at most wait_ms. */
    pleat_status (*trim)(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released);
    /* 0 = none. Gives back what is free and over; ENOMEM_DEVICE if live granules exceed it (then
     * the limit is as before). */
    pleat_status (*set_limit)(pl_allocator *a, uint64_t bytes);
    /* From now on requests are rounded up by these divisions (rounding.h), which are good. NULL
     * where that cannot change. */
    void (*set_rounding)(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS]);
    /* No work runs or is submitted until it returns: move what lives together, and give back what
     * is won. ECAPTURE (one is known); EPENDING; ENOTSUP; EDRIVER; EPOISONED (an undo failed).
     * Writes *out on success. NULL where nothing can be moved. */
    pleat_status (*compact)(pl_allocator *a, pleat_compaction *out);
    /* Blocks freed while `stream` was captured may be used again: the graph is gone, and perhaps
     * the stream. */
    pleat_status (*release_capture)(pl_allocator *a, pl_stream *stream);
    /* The same by the handle of a stream that took part, which may be gone; NULL where it must be
     * known yet. Of several captures with it the oldest is meant. */
    pleat_status (*release_capture_of)(pl_allocator *a, void *handle);
    /* Captures that are over keep no memory but that of private pools from now on; NULL where they
     * never do. */
    void (*let_captures_go)(pl_allocator *a);
    /* From now on captures may begin, or no more: calls pair. While they may, nothing is done that
     * would break one. NULL where nothing is. */
    void (*expect_captures)(pl_allocator *a, bool is_expected);
    /* The stream is about to be destroyed, or has been: what was freed on it so far is fenced now,
     * while it can be; and it is let go of (pl_stream_put). NULL where streams are kept. */
    void (*retire_stream)(pl_allocator *a, pl_stream *stream);
    /* Trust the stream's handle no more (pl_stream_doubt), in no thread's front either. NULL where
     * there are no fronts. */
    void (*doubt_stream)(pl_allocator *a, pl_stream *stream);
    /* Private pools; all five are NULL where the allocator has none. What is allocated from one is
     * reused only within it, also by a stream that is being captured (in its own stream's order),
     * and none of its memory is taken, unmapped or given back before it is released. Its blocks are
     * freed, recorded and queried like any others. */
    pleat_status (*private_open)(pl_allocator *a, pl_private **out); /* ENOMEM_HOST */
    pleat_status (*private_alloc)(pl_allocator *a, pl_private *pool, size_t bytes,
                                  pl_stream *stream, pleat_devptr *out);
    /* A capture that used the pool is over: frees that could not be timed during it may be now. */
    void (*private_rest)(pl_allocator *a, pl_private *pool);
    /* The pool is gone, the pointer with it: its free memory is everybody's, that of its live
     * blocks when they are freed. */
    void (*private_release)(pl_allocator *a, pl_private *pool);
    /* The captures that allocated in the pool, if the driver has told that no graph of any of them
     * can run or be launched any more; else 0. */
    uint64_t (*private_gone)(pl_allocator *a, pl_private *pool);
    void (*private_reserved)(pl_allocator *a, pl_private *pool, pleat_stat out[PLEAT_N_SIZES]);
    /* Checkpoints of private pools; all three are NULL where there are none. The roster of a pool's
     * live blocks, by address; it refers to their owners until it is dropped. ENOMEM_HOST. */
    pleat_status (*private_save)(pl_allocator *a, pl_private *pool, pl_roster *out);
    /* Make the pool's live blocks those of the roster, in one step for whoever names them. The
     * caller lets no request of the pool run meanwhile. is_settled: all uses of its free memory are
     * over. EPOOL (the roster is another pool's); EPENDING; EPOISONED; ENOMEM_HOST: all is as
     * before, and out->odd is where. Else both rosters of *out are to be dropped. */
    pleat_status (*private_restore)(pl_allocator *a, pl_private *pool, const pl_roster *saved,
                                    bool is_settled, pl_restored *out);
    void (*roster_drop)(pl_allocator *a, pl_roster *roster);
    /* A block of the pool at that address, a multiple of 512; requests as above. EFOREIGN (the pool
     * has no memory there); EBUSY (a block lives there); EPENDING; ECAPTURE (the stream is being
     * captured); ENOMEM_HOST; EDRIVER. */
    pleat_status (*private_alloc_at)(pl_allocator *a, pl_private *pool, pleat_devptr base,
                                     size_t bytes, pl_stream *stream);
    /* Buffers: addresses for the most that may come, of which pages get memory and lose it. All
     * three are NULL where there are none. Pages of a buffer of a room are its blocks; room: NULL =
     * none. ENOSPACE_VA; EASLEEP; ENOMEM_HOST; EDRIVER. */
    pleat_status (*buffer_open)(pl_allocator *a, pl_private *room, size_t most_bytes,
                                size_t page_bytes, pleat_devptr *out);
    /* EFOREIGN (no buffer begins there); EINVAL (beyond its most); ECAPTURE; EPOISONED; and what
     * alloc returns. A change that fails has left committed pages and the buffer's size alone. */
    pleat_status (*buffer_change)(pl_allocator *a, const pl_buffer_change *change,
                                  pl_stream *stream);
    /* Any address in it, with memory or without. EFOREIGN. */
    pleat_status (*buffer_query)(pl_allocator *a, pleat_devptr ptr, pleat_buffer_info *out);
    /* Rooms: memory for the blocks of a tag; all eight are NULL where the allocator has none. A
     * room is a pool whose blocks lie together, and that keeps nothing: requests name it in
     * private_alloc and alloc_asked, and its free memory is everybody's. It stays until the
     * allocator is destroyed. ENOMEM_HOST. */
    pleat_status (*room_open)(pl_allocator *a, const char *tag, pl_private **out);
    /* The most bytes that its live blocks may have, rounded; 0 = any. Those that live may have
     * more: then it gets no further ones. */
    void (*room_set_limit)(pl_allocator *a, pl_private *room, uint64_t bytes);
    void (*room_read)(pl_allocator *a, pl_private *room, pl_room_figures *out);
    /* Give the room's memory back to the driver; addresses and blocks stay, contents as `how` says.
     * Waits for all work of the device first; none may be submitted on the room's blocks from the
     * call on. EASLEEP (it sleeps already); ECAPTURE; EPENDING; ENOMEM_HOST; EWRITE; ENOTSUP;
     * EDRIVER: it is awake as before. EPOISONED: it is asleep, but not all memory went back. */
    pleat_status (*room_sleep)(pl_allocator *a, pl_private *room, const pl_sleep_how *how,
                               pl_slept *out);
    /* Have memory again, with its contents, under what still lives; most_bytes: of memory in this
     * call, in the order of addresses, 0 = all. Awake rooms stay so. ENOMEM_DEVICE; EPENDING;
     * ENOMEM_HOST; EWRITE; EDRIVER; EPOISONED: it is asleep as before, and out->needed_bytes tells
     * what memory it lacked. While out->left_bytes is not 0 it counts as asleep. */
    pleat_status (*room_wake)(pl_allocator *a, pl_private *room, uint64_t most_bytes,
                              pl_slept *out);
    /* share, of all live blocks of the room, by address within each of its segments. Blocks that
     * come or go meanwhile may be in the list or not. */
    pleat_status (*room_share)(pl_allocator *a, pl_private *room, pl_share_list *out);
    /* Do wakes from now on leave what the sleep has kept on the host, for the next one? */
    void (*room_retain)(pl_allocator *a, pl_private *room, bool is_retained);
    /* Copy to `to` what was kept of [ptr, ptr + bytes), in the room that has them; `to` NULL: tell
     * where in host memory it is, until the next sleep or wake. EFOREIGN (not all of it is kept);
     * ENOTSUP (it is in no one place of host memory); EWRITE (the file cannot be read). */
    pleat_status (*room_kept)(pl_allocator *a, pleat_devptr ptr, size_t bytes, void *to, void **at);
    /* All figures but num_ooms, which stays 0. A caller may repeat a refused request, so the caller
     * counts the requests that fail in the end. */
    void (*stats)(pl_allocator *a, pleat_stats *out);
    void (*reset_peaks)(pl_allocator *a);
    /* Call `see` for every piece: segment by segment, in address order, without gaps inside one.
     * The lock is held: `see` calls no allocator and does not block. */
    void (*visit)(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                  void *context);
    /* The same for some pieces, in a hold of their own: those from the address on, 0 at first,
     * which becomes that of the next. Each is as it is then; one that reaches across the seam, as
     * others changed it since, is left out, and the next begins a segment. False: there are no
     * more. NULL: the allocator is only visited at once. */
    bool (*visit_some)(pl_allocator *a, pleat_devptr *from,
                       void (*see)(void *context, const pl_piece *piece), void *context);
    /* Every walker; 0, or the number of the first broken invariant. */
    int (*check)(pl_allocator *a);
} pl_allocator_ops;

struct pl_allocator {
    const pl_allocator_ops *ops; /* const; each allocator embeds this as its first member */
};

/* The allocator of that name, or NULL. Names of all: pl_allocator_name(0..), NULL at the end; then
 * those of pl_host_allocator_name for pinned memory only. */
const pl_allocator_ops *pl_allocator_find(const char *name);
const char *pl_allocator_name(unsigned index);
const char *pl_host_allocator_name(unsigned index);

#define PL_DECLARE_ALLOCATOR(ops) extern const pl_allocator_ops ops;
PL_ALLOCATOR_LIST(PL_DECLARE_ALLOCATOR)
PL_HOST_ALLOCATOR_LIST(PL_DECLARE_ALLOCATOR)
#define PL_ALLOCATOR_ADDRESS(ops) &ops,
extern const pl_allocator_ops *const pl_allocators[]; /* the list; NULL at the end */

#endif
