/* pleat_types.h - the types that every layer shares. pleat.h includes this file, so both are
 * installed. */
#ifndef PLEAT_TYPES_H
#define PLEAT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One list: constant, text. PLEAT_OK is 0. The numbers are part of the ABI, so append only. */
/* clang-format off */
#define PLEAT_STATUS_LIST(X) \
    X(PLEAT_OK, "success") \
    X(PLEAT_EINVAL, "invalid argument") \
    X(PLEAT_ESIZE, "the size is absurd: more than any device holds") \
    X(PLEAT_ECONF, "bad configuration") \
    X(PLEAT_EDEVICE, "no such device") \
    X(PLEAT_ESTREAM, "the stream belongs to another context or device") \
    X(PLEAT_EFOREIGN, "the pointer is not to live memory of the kind that the call takes") \
    X(PLEAT_EDOUBLEFREE, "the block was freed already") \
    X(PLEAT_EGONE, "the instance was destroyed or never created") \
    X(PLEAT_EFORKED, "the instance was made before fork and this is the child") \
    X(PLEAT_EBUSY, "it is still in use") \
    X(PLEAT_EPENDING, \
      "the memory is there, but its last use is not over and waiting is not allowed") \
    X(PLEAT_ENOMEM_HOST, "out of host memory") \
    X(PLEAT_ENOMEM_DEVICE, "out of device memory") \
    X(PLEAT_ENOSPACE_VA, "out of device address space") \
    X(PLEAT_EDRIVER, "the driver failed") \
    X(PLEAT_ENODRIVER, "no driver could be loaded") \
    X(PLEAT_ENOVMM, "the device or driver has no virtual memory management") \
    X(PLEAT_EPOISONED, "an undo failed earlier: the memory concerned is out of service") \
    X(PLEAT_ECAPTURE, "not possible while the stream is being captured") \
    X(PLEAT_ENOTSUP, "the allocator at work cannot do that") \
    X(PLEAT_EPOOL, "there is no such private pool") \
    X(PLEAT_EWRITE, "the output could not be written") \
    X(PLEAT_ESHARE, "memory of another process cannot be had") \
    X(PLEAT_EASLEEP, "the tag is asleep")
/* clang-format on */

typedef enum pleat_status {
#define PLEAT_STATUS_ENUM(name, text) name,
    PLEAT_STATUS_LIST(PLEAT_STATUS_ENUM)
#undef PLEAT_STATUS_ENUM
} pleat_status;

/** A device address. An integer, so that nobody dereferences the address by accident. */
typedef uint64_t pleat_devptr;

/** One counter in PyTorch's sense: the current value, the peak, and the sums of additions and
 *  removals. */
typedef struct pleat_stat {
    uint64_t current;
    uint64_t peak;
    uint64_t allocated;
    uint64_t freed;
} pleat_stat;

/** Index into each group of statistics, by the rounded sizes of blocks (small is <= 1 MiB). */
enum { PLEAT_SIZES_ALL = 0, PLEAT_SIZES_SMALL = 1, PLEAT_SIZES_LARGE = 2, PLEAT_N_SIZES = 3 };

/** Statistics of one device. Units: counts or bytes, as the name says. Names and meanings of the
 *  first part are PyTorch's torch.cuda.memory_stats; the second part is pleat's own. */
typedef struct pleat_stats {
    pleat_stat allocation[PLEAT_N_SIZES];
    pleat_stat segment[PLEAT_N_SIZES];
    pleat_stat active[PLEAT_N_SIZES];
    pleat_stat inactive_split[PLEAT_N_SIZES];
    pleat_stat allocated_bytes[PLEAT_N_SIZES];
    pleat_stat reserved_bytes[PLEAT_N_SIZES]; /* pleat: resident bytes, under all and large */
    pleat_stat active_bytes[PLEAT_N_SIZES];
    pleat_stat inactive_split_bytes[PLEAT_N_SIZES];
    pleat_stat requested_bytes[PLEAT_N_SIZES];
    pleat_stat oversize_allocations;
    pleat_stat oversize_segments;
    uint64_t num_alloc_retries;
    uint64_t num_ooms;
    uint64_t num_sync_all_streams;
    uint64_t num_device_alloc;
    uint64_t num_device_free;

    /* Resident bytes by holder. live + free + pending + idle == resident, with two exceptions. A
     * request in flight is in none, and graphs' memory outside of private pools is in
     * pinned_granules alone. */
    uint64_t granule_bytes;
    uint64_t resident_bytes;
    uint64_t live_granules;      /* L: granules with a byte of a live block */
    uint64_t peak_live_granules; /* pinned and tied ones included */
    uint64_t pinned_granules;    /* P: kept for graphs and private pools, without live bytes */
    uint64_t free_bytes;         /* settled, under no live block */
    uint64_t pending_bytes;      /* free, last use not known to be over */
    uint64_t idle_bytes;         /* mapped nowhere */
    uint64_t rounding_bytes;     /* live bytes nobody asked for: 512-byte rounding */
    uint64_t stale_bytes;        /* addresses still mapped to memory that is elsewhere, or idle */
    uint64_t address_bytes;      /* address space reserved */
    uint64_t metadata_bytes;     /* host memory held for this device */

    /* Device operations. An operation maps or unmaps a contiguous range, or is a cuMemAlloc or a
     * cuMemFree. */
    uint64_t ops_map;
    uint64_t ops_unmap;
    uint64_t ops_alloc;
    uint64_t ops_free;
    uint64_t bytes_created; /* taken from the driver in all, chunks and segments */
    uint64_t bytes_mapped;  /* mapped in all, again and again; a segment counts once */
    uint64_t n_taken_granules;
    uint64_t host_syncs;   /* a call blocked on the GPU or polled until something changed */
    uint64_t stream_waits; /* ordered waits that pleat put into a stream */
    uint64_t n_driver_calls;
    uint64_t driver_ns; /* host time in driver calls; 0 unless time_calls is on */
    uint64_t n_undo_failures;

    uint64_t tied_granules; /* free granules of partly used chunks (chunks:mixed). They serve
                             * requests that fit, but cannot be moved or given back */
} pleat_stats;

/** What a pointer query tells. */
typedef struct pleat_block_info {
    pleat_devptr base;
    size_t bytes; /* rounded: the bytes that the block occupies */
    size_t requested_bytes;
    uint64_t stream_id; /* owner; the driver's id where the driver has ids */
    void *stream;       /* owner's handle as given */
    int device;
    const char
        *tag; /* the block's tag (pleat_tag.h), for as long as the process lives; NULL = none */
    int is_asleep; /* the tag sleeps, so there is no memory at the address */
} pleat_block_info;

/** What a buffer query tells. */
typedef struct pleat_buffer_info {
    pleat_devptr base;
    uint64_t most_bytes;      /* the buffer may grow to this size: its reserved addresses */
    uint64_t bytes;           /* its size: up to the last requested byte */
    uint64_t page_bytes;      /* pages are committed and decommitted whole */
    uint64_t committed_bytes; /* of pages that have memory */
    uint64_t n_runs;          /* sequences of such pages, or more where streams differ */
    int device;
    const char *tag; /* the buffer's tag (pleat_tag.h); NULL = none */
    int is_asleep;   /* the tag sleeps: no memory at the addresses */
} pleat_buffer_info;

/** What a compaction did. */
typedef struct pleat_compaction {
    uint64_t n_split;     /* chunks replaced by smaller chunks */
    uint64_t moved_bytes; /* copied, in whole granules */
    uint64_t won_bytes;   /* given back to the driver */
} pleat_compaction;

#ifdef __cplusplus
}
#endif

#endif
