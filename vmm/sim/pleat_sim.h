/* pleat_sim.h - the simulated CUDA driver's own interface, beside its cu* calls.
 *
 * Load the simulator's shared object like libcuda.so.1 and look these functions up by name, or link
 * with it. It needs nothing else of pleat: any program that uses the virtual memory management
 * calls of the CUDA Driver API can be tested against it without a GPU.
 *
 * Time. Work is declared: the program says which bytes it reads and writes, and on which stream.
 * Work finishes when `depth` later pieces of work have been submitted to the device, counting all
 * streams, and when everything it depends on (its stream's earlier work, events waited for, the
 * legacy default stream) has finished. Recording, waiting and stream writes do not count as work,
 * and what pleat_sim_use submits lasts until it is ended or waited for.
 * Queries do not advance time; a synchronisation finishes what it waits for.
 *
 * Hazards are things that a correct program never does; the simulator records them and goes on.
 *
 * User objects (cuUserObjectCreate). Graphs hold references from the capture on (the handle comes
 * from cuStreamGetCaptureInfo_v2), executable graphs their own, launches in flight too. The call
 * that releases the last reference runs the destructor before it returns, outside of every lock; if
 * a launch was the last holder, that is the call that finishes the launch. A capture that ends
 * without a graph gives up its graph's references. A reset forgets objects without calling
 * destructors.
 *
 * Other processes. Memory that was created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR can be
 * exported; the descriptor is one of a file in memory (memfd_create), which another process that is
 * on the simulator imports from whatever way it got it. With backing:memory in both they see the
 * same bytes. Every process has simulated devices of its own, so:
 *   - Imported memory is charged to the process that created it: imported_bytes, not
 *     physical_bytes, and no part of the capacity. What that process releases while others hold it,
 *     or a descriptor alone holds, is charged to nobody, since the simulator cannot see either.
 *   - It lies on the device of the same number; INVALID_DEVICE where there is none.
 *   - Work of one process is not ordered with another's, and races between them are not seen.
 *     Work takes effect when it finishes (see Time), so before a descriptor's bytes are read
 *     elsewhere, their writer synchronises.
 *   - Any other descriptor is INVALID_VALUE, as is an export without the handle type; the process
 *     that is out of descriptors gets OPERATING_SYSTEM.
 *
 * Pinned host memory is charged to the host, to no device (host_bytes); there is one node.
 * cuMemHostAlloc gives memory that the program can use. With backing:memory it lies among the
 * simulator's addresses, so work on it is checked, and freeing it under work is a hazard;
 * with backing:none nothing is seen of such work. cuMemCreate with a location on the host's node
 * needs backing:memory, as made-up addresses are of no use to a host; such memory is not exported,
 * its mappings can be given to every device, and to the host alone what lies on it.
 *
 * Pools (cuMemPoolCreate, cuMemAllocFromPoolAsync; cuMemAllocAsync takes from the device's default
 * pool) are a model, since the behaviour of drivers is only partly documented:
 *   - A pool takes memory from the device in segments: the block's size rounded up to 32 MiB, or to
 *     granules if the device or the pool's maximum has no room for that. Drivers report 32 MiB as
 *     reserved after a first small allocation. The maximum bounds what is reserved.
 *   - A block takes the start of the smallest run of free neighbours that its stream may use, the
 *     lowest of equal ones; sizes are rounded up to 512 bytes. Pieces of one segment merge. Free
 *     pages are not remapped from one segment to another: drivers say that they do, but
 *     pytorch#110194 and rmm#1245 report pools that refuse with 20 to 30 GB free in them.
 *   - Memory that was freed on a stream is usable for that stream at once. Another stream may use
 *     it if its command comes after the free anyway (by events or the legacy stream:
 *     FOLLOW_EVENT_DEPENDENCIES); when the free is over (ALLOW_OPPORTUNISTIC; without it, once a
 *     synchronisation has seen that); or, if the pool cannot grow, behind a dependency that is
 *     added to the stream (ALLOW_INTERNAL_DEPENDENCIES). All three are on by default.
 *   - Segments without a live block go back whole, the newest first: at any synchronisation of a
 *     stream or an event and in pleat_sim_finish while more than the threshold (default 0) is
 *     reserved, and in cuMemPoolTrimTo; neither goes below the bytes to keep. A free whose end
 *     nobody has observed keeps its segment.
 *   - USED counts the bytes asked for, until cuMemFreeAsync is called. A pool that is destroyed
 *     gives back its memory when the last block is free.
 *   - Allocation and free are commands of their streams: work on a block that is not ordered after
 *     its allocation is a race, as is any on a free that is not ordered after the work (kind
 *     UNMAP_IN_USE); work that is submitted after the free touches unmapped bytes.
 *   - Graphs have no memory nodes here: in a capture, allocation and free answer
 *     STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid.
 *   - For a new segment the cost clock charges creating, mapping and granting one handle of its
 *     size, for one that goes unmapping and releasing it; a cost file may add a share for each
 *     call. */
#ifndef PLEAT_SIM_H
#define PLEAT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PLEAT_SIM_API __attribute__((visibility("default")))
#else
#define PLEAT_SIM_API
#endif

/** Reset the simulator to `conf`: every device, handle, mapping, stream, event, fault, hazard, the
 *  log and the clock.
 *
 *  Units    `key:value,key:value`; NULL or empty = all defaults. Sizes are bytes with an optional
 *           binary suffix K, M, G or T.
 *             devices:1..16        default 1
 *             capacity:SIZE        of each device, exact to the byte; default 16G
 *             host:SIZE            pinned host memory that the process may have; default 64G
 *             context:SIZE         of it a device's primary context holds this, from its first
 *                                  retain to its last release; default 0
 *             granularity:SIZE     a power of two, 4K to 1G; default 2M
 *             backing:none         made-up addresses, nothing behind them (default): what is
 *                                  copied to the host is zeros
 *             compute:MAJOR.MINOR  compute capability, 3.0 to 19.9; default 8.0
 *             backing:memory       host pages behind every mapping; at most 16,000 mappings
 *             depth:0..1048576     see Time above; default 256
 *             costs:NAME or FILE   the cost clock's model: a100 (default), driver580 or gb10, as in
 *                                  costs/NAME.cost, which gives the sources; or a file like those
 *             profile:full         CUDA 13.0 (default)
 *             profile:no_vmm       attributes 102 and 115 are 0, calls of VMM and of pools answer
 *                                  NOT_SUPPORTED
 *             profile:old_driver   CUDA 11.2: later calls (cuStreamGetId, ...) answer NOT_FOUND,
 *                                  but user objects and cuStreamGetCaptureInfo_v2 of 11.3 are
 *                                  there; no POSIX file descriptors, no RDMA; pools have no
 *                                  maximum and do not tell what they hold
 *             dead_handles:error   the handle of a destroyed stream or event is refused, and the
 *                                  next one created gets it (default)
 *             dead_handles:hazard  it is refused and recorded as a hazard, in any call; it is
 *                                  recycled once 4,096 later ones were destroyed
 *             dead_handles:crash   the process dies of SIGSEGV, after a line on standard error
 *             unkind:[WORD;WORD]   the driver does what others have been seen to do:
 *               partial_unmap      a cuMemUnmap that a fault refuses has unmapped the first half of
 *                                  the mappings, of one mapping none
 *               unsafe_vmm         each call of VMM is unsafe while a thread captures, like
 *                                  cuMemAlloc
 *               broken_rdma        attribute 110 is 1, but cuMemSetAccess on such memory answers
 *                                  UNKNOWN, as on WSL2
 *               no_host_numa       cuMemCreate of host memory answers OUT_OF_MEMORY, as for nodes
 *                                  without memory or CPUs
 *               green_apart        CUDA 12.9: cuCtxRecordEvent and cuCtxSynchronize of a primary
 *                                  context leave out the streams of its green contexts
 *               green_events       an event that was made in a green context is of that context
 *                                  alone, and ends with it; no other is recorded on its streams
 *             delay:[NAME=US;...]  see pleat_sim_delay; US may be the word yield
 *             delay_after:[...]    see pleat_sim_delay_after
 *             without:[NAME;NAME]  these entry points answer NOT_FOUND, in any profile
 *             peers:all            every device can be given access to the others' memory (default)
 *             peers:pairs          0 and 1 to each other's, 2 and 3, ...
 *             peers:none           no device can
 *             va_bits:24..48       address space of 1 << va_bits bytes; default 48, 47 with memory
 *             log:ring or full     keep the last 4,096 calls (default) or all
 *             name:TEXT            the devices' name
 *             fork:refuse          after fork the child has no driver, as with a real one (default)
 *             fork:allow           the child goes on with a copy
 *             free:hazard          cuMemFree under unfinished work is a hazard (default)
 *             free:wait            cuMemFree synchronises first, as many drivers do
 *             waits:finish         a synchronisation finishes what it waits for (default)
 *             waits:refuse         a synchronisation that would have to wait answers NOT_READY: as
 *                                  if the GPU were at work for ever, but for a caller who asks
 *  Returns  0, or -1: a key or a value is unknown; pleat_sim_error names it.
 *  Failure  everything is as before.
 *  Threads  any; no other thread may use what is reset. cuInit stays valid.
 *  Source   Without a reset before cuInit, the environment variable PLEAT_SIM holds `conf`; not in
 *           a setuid program. */
PLEAT_SIM_API int pleat_sim_reset(const char *conf);

/** Say what was wrong with the last configuration, cost file, fault or mapping that was refused.
 *
 *  Returns  a text, empty if nothing was; valid until the next such error.
 *  Owner    the simulator. */
PLEAT_SIM_API const char *pleat_sim_error(void);

/** Tell whether the devices' memory has contents: whether the configuration says backing:memory.
 *
 *  Threads  any. */
PLEAT_SIM_API bool pleat_sim_has_contents(void);

/** One access of declared work: a range of a device's addresses. bytes may be 0. */
typedef struct pleat_sim_access {
    uint64_t ptr;
    uint64_t bytes;
    bool is_write;
} pleat_sim_access;

/** Submit work that touches accesses[0..n).
 *
 *  Params   stream: a CUstream; NULL = the legacy default stream of the current context, or of the
 *           only device where no context is current.
 *  Returns  a CUresult: CUDA_SUCCESS; INVALID_HANDLE (no stream, or one of another context than the
 *           current one); INVALID_CONTEXT; NOT_INITIALIZED; a capture's error. While the stream is
 *           captured the work is recorded into the graph.
 *  Failure  nothing is submitted. A hazard is no failure: it is recorded, the work is submitted.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_SIM_API int pleat_sim_work(void *stream, const pleat_sim_access *accesses, size_t n);

/** Submit work that fills [ptr, ptr + bytes) with a pattern made of `seed` when it finishes.
 *
 *  Units    as pleat_sim_work with one write. With backing:none it does nothing else.
 *  Returns  as pleat_sim_work. */
PLEAT_SIM_API int pleat_sim_fill(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);

/** Submit work that compares [ptr, ptr + bytes) with the pattern of `seed` when it finishes.
 *
 *  Units    as pleat_sim_work with one read. ptr and seed as in the fill; bytes at most as many.
 *  Returns  as pleat_sim_work. A difference is a hazard of kind PLEAT_SIM_CONTENTS. */
PLEAT_SIM_API int pleat_sim_verify(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);

/** Submit work that lasts: it writes [ptr, ptr + bytes) on `stream`, after all that was submitted
 *  to `after`. Neither `depth` nor pleat_sim_advance ends it, only pleat_sim_use_end or a
 *  synchronisation that waits for it. Later work of the stream comes after it.
 *
 *  Params   use [out]: what pleat_sim_use_end takes. Both streams are created ones.
 *  Returns  as pleat_sim_work; INVALID_VALUE also where `use` is NULL, NOT_SUPPORTED where one of
 *           the streams is captured. */
PLEAT_SIM_API int pleat_sim_use(void *stream, void *after, uint64_t ptr, uint64_t bytes,
                                uint64_t *use);

/** End a use of that stream, with all that it comes after. One that is over already is no error.
 *
 *  Returns  a CUresult: CUDA_SUCCESS; INVALID_HANDLE; INVALID_VALUE (no such use);
 *           NOT_INITIALIZED. */
PLEAT_SIM_API int pleat_sim_use_end(void *stream, uint64_t use);

/** Finish everything that was submitted, on all devices. */
PLEAT_SIM_API void pleat_sim_finish(void);

/** Let time go on as if n more pieces of work had been submitted to a device.
 *
 *  Params   device: an ordinal, or < 0 for all of them. */
PLEAT_SIM_API void pleat_sim_advance(int device, uint64_t n);

/** Make the k-th such call from now on answer `code` and do nothing else.
 *
 *  Params   call: an entry point's name ("cuMemMap"), or NULL for any call that changes the
 *           driver's state: queries, cuInit, cuCtxPopCurrent and cuThreadExchange... are not
 *           counted then, but can be named. k: 0 = the next one. code: a CUresult.
 *  Failure  up to 64 rules may be in force; more, or an unknown name, set pleat_sim_error and are
 *           printed on stderr, since a test that lost its fault would pass without testing
 *           anything. */
PLEAT_SIM_API void pleat_sim_fail_at(const char *call, uint64_t k, int code);

/** Make the k-th such call and every later one answer `code`; see pleat_sim_fail_at. */
PLEAT_SIM_API void pleat_sim_fail_from(const char *call, uint64_t k, int code);

/** Let every later call that works on a device answer `code`, as after a kernel that faulted; 0: no
 *  more.
 *
 *  Units    code: a CUresult, such as 700 (ILLEGAL_ADDRESS) or 719 (LAUNCH_FAILED). */
PLEAT_SIM_API void pleat_sim_break(int code);

/** Forget all faults that have not struck yet. */
PLEAT_SIM_API void pleat_sim_fail_never(void);

/** The delay that only yields to other threads. */
#define PLEAT_SIM_YIELD 0xffffffffU

/** Let every such call sleep before it takes effect, so that races show reliably.
 *
 *  Units    `us`: microseconds of real time, at most 10 seconds; 0 = none any more; PLEAT_SIM_YIELD
 *           = sched_yield. The cost clock does not notice.
 *  Params   call: an entry point's name, one of this header's that stands in the log
 *           (pleat_sim_work), or NULL for all of the driver's.
 *  Failure  an unknown name sets pleat_sim_error and is printed on stderr.
 *  Threads  any; the calling thread sleeps, outside every lock of the simulator. */
PLEAT_SIM_API void pleat_sim_delay(const char *call, unsigned us);

/** Let every such call sleep after it took effect, before it returns; see pleat_sim_delay. */
PLEAT_SIM_API void pleat_sim_delay_after(const char *call, unsigned us);

/** Count the calls that a fault has answered since the reset. */
PLEAT_SIM_API uint64_t pleat_sim_n_faults(void);

/** What the simulator holds. Reservations, streams, events, graphs and lost objects always count
 *  those of all devices. */
typedef struct pleat_sim_counts {
    uint64_t reservations, handles, mappings, allocations; /* live driver objects */
    uint64_t streams, events, graphs, contexts;            /* graphs: executable ones too */
    uint64_t reserved_bytes, physical_bytes, mapped_bytes; /* physical: also what pools hold */
    uint64_t peak_physical_bytes;
    uint64_t capacity_bytes;
    uint64_t unfinished_work;
    uint64_t hazards;
    uint64_t calls;        /* of cu* entry points, refused ones too */
    uint64_t lost_objects; /* went with their context instead of being destroyed */
    uint64_t pools;        /* of cuMemPoolCreate, not yet destroyed */
    uint64_t pool_bytes;   /* physical bytes that pools hold, default ones and destroyed ones too */
    uint64_t user_objects; /* whose destructor was not called yet */
    uint64_t imported_bytes; /* of memory that another process created; not in physical_bytes */
    uint64_t host_bytes;     /* pinned host memory of the whole process; not in physical_bytes */
} pleat_sim_counts;

/** Tell what the simulator holds.
 *
 *  Params   device: an ordinal, or < 0 for all together (then peak_physical_bytes is the sum of
 *           the devices' peaks). out [out].
 *  Returns  0, or -1: no such device, or never configured. */
PLEAT_SIM_API int pleat_sim_count(int device, pleat_sim_counts *out);

/** Count the calls of one entry point since the reset ("cuMemMap"), refused ones too. */
PLEAT_SIM_API uint64_t pleat_sim_n_calls(const char *call);

/** Read the cost clock: modelled microseconds spent in driver calls since the reset. */
PLEAT_SIM_API double pleat_sim_cost_us(void);

/** One mapping made by cuMemMap. */
typedef struct pleat_sim_mapping {
    uint64_t ptr;
    uint64_t bytes;
    uint64_t handle;
    int device; /* that owns the memory */
    int access; /* CU_MEM_ACCESS_FLAGS_* of that device */
} pleat_sim_mapping;

/** Copy up to n mappings in address order.
 *
 *  Shape    out has room for n; may be NULL when n is 0.
 *  Returns  how many there are; more than n are not copied. */
PLEAT_SIM_API size_t pleat_sim_mappings(pleat_sim_mapping *out, size_t n);

typedef enum pleat_sim_hazard_kind {
    PLEAT_SIM_UNMAPPED_ACCESS, /* work touches bytes without mapping or access */
    PLEAT_SIM_UNMAP_IN_USE,    /* unmap, release or free under unfinished work */
    PLEAT_SIM_RACE,            /* two streams, same physical bytes, unordered, one of them writes */
    PLEAT_SIM_CONTENTS,        /* memory mode: verify found other bytes */
    PLEAT_SIM_CALL_IN_DESTRUCTOR, /* of a user object; the call answers NOT_PERMITTED */
    PLEAT_SIM_DEAD_HANDLE         /* dead_handles:hazard: `ptr` is a destroyed stream or event */
} pleat_sim_hazard_kind;

typedef struct pleat_sim_hazard {
    pleat_sim_hazard_kind kind;
    uint64_t ptr;
    uint64_t bytes;
    uint64_t call; /* number in the log of the call that revealed it */
    char text[160];
} pleat_sim_hazard;

/** Copy up to n hazards in order of discovery; at most 1,024 are kept.
 *
 *  Shape    out has room for n; may be NULL when n is 0.
 *  Returns  how many there were since the reset, kept or not. */
PLEAT_SIM_API size_t pleat_sim_hazards(pleat_sim_hazard *out, size_t n);

/** Write the call log as JSON lines to a file: all calls with log:full, else the last 4,096.
 *
 *  Returns  0, or -1: the file could not be written. */
PLEAT_SIM_API int pleat_sim_write_log(const char *path);

#ifdef __cplusplus
}
#endif

#endif
