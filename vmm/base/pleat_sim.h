/* pleat_sim.h - the simulated CUDA driver's own interface, beside its cu* calls.
 *
 * Load the simulator's shared object like libcuda.so.1 and look these functions up by name, or link
 * the object. The object needs nothing else of pleat. Any program with the virtual memory
 * management calls of the CUDA Driver API can be tested without a GPU.
 *
 * Time. Work is declared. The program names the bytes read and written, and the stream. Work
 * finishes when `depth` later pieces of work have been submitted to the device, counting all
 * streams, and when its dependencies (its stream's earlier work, events waited for, the legacy
 * default stream) have finished. Recording, waiting and stream writes do not count as work, and
 * what pleat_sim_use submits lasts until it is ended or waited for. Queries do not advance time. A
 * synchronisation finishes the work it waits for.
 *
 * Hazards are things that a correct program never does. The simulator records a hazard and goes on.
 *
 * User objects (cuUserObjectCreate). Graphs hold references from the capture on (the handle comes
 * from cuStreamGetCaptureInfo_v2), executable graphs their own, launches in flight too. The call
 * that releases the last reference runs the destructor before returning, outside of every lock. If
 * a launch was the last holder, the call that finishes the launch runs the destructor. A capture
 * that ends without a graph gives up the graph's references. A reset forgets objects without
 * calling destructors.
 *
 * Other processes. Memory created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR can be exported.
 * The descriptor is of a file in memory (memfd_create). Another process on the simulator imports
 * the descriptor, however it arrived. Two processes with backing:memory share the bytes. Every
 * process has simulated devices of its own, with these rules.
 *   - Imported memory counts in imported_bytes, not in physical_bytes or the capacity. The creating
 *     process is charged. Memory held only by other processes or by a descriptor is charged to
 *     nobody, since the simulator cannot see the holders.
 *   - Imported memory lies on the device of its original number. Without such a device,
 *     INVALID_DEVICE.
 *   - Work of two processes is unordered, and races between processes are not seen. Work takes
 *     effect when it finishes (see Time), so before a descriptor's bytes are read elsewhere, their
 *     writer synchronises.
 *   - A descriptor of another kind is INVALID_VALUE, as is an export without the handle type. A
 *     process out of descriptors gets OPERATING_SYSTEM.
 *
 * Pinned host memory is charged to the host, not to a device (host_bytes). The host has one node.
 * The program can use memory from cuMemHostAlloc. With backing:memory the memory lies among the
 * simulator's addresses, so work on it is checked, and freeing under work is a hazard. With
 * backing:none the simulator sees no work on host memory. Memory from cuMemCreate on the host's
 * node needs backing:memory, as made-up addresses are of no use to a host. Such memory is not
 * exported. Every device can get access to its mappings, and the host gets access to its own memory
 * only.
 *
 * Pools (cuMemPoolCreate, cuMemAllocFromPoolAsync; cuMemAllocAsync takes from the device's default
 * pool) are a model, since the behaviour of drivers is only partly documented:
 *   - A pool takes memory from the device in segments. A segment is the block's size rounded up to
 *     32 MiB, or to granules if the device or the pool's maximum lacks room. Drivers report 32 MiB
 *     as reserved after a first small allocation. The maximum bounds the reserved bytes.
 *   - A block takes the start of the smallest usable run of free neighbours, the lowest among
 *     equals. Sizes are rounded up to 512 bytes. Pieces of one segment merge. Free pages are not
 *     remapped between segments. Drivers claim to remap, but pytorch#110194 and rmm#1245 report
 *     pools that refuse with 20 to 30 GB free in them.
 *   - A stream may reuse memory freed on it at once. Another stream may use the memory in three
 *     cases, all on by default. Its command comes after the free anyway, by events or the legacy
 *     stream (FOLLOW_EVENT_DEPENDENCIES). The free is over (ALLOW_OPPORTUNISTIC; without the
 *     attribute, once a synchronisation has seen the end). The pool cannot grow, and the stream
 *     gets a new dependency on the free (ALLOW_INTERNAL_DEPENDENCIES).
 *   - Segments without a live block go back whole, the newest first. They go at any synchronisation
 *     of a stream or an event and in pleat_sim_finish, while more than the threshold (default 0) is
 *     reserved, and in cuMemPoolTrimTo, never below the bytes to keep. A free with an unobserved
 *     end keeps its segment.
 *   - USED counts the requested bytes until cuMemFreeAsync. A destroyed pool gives its memory back
 *     when the last block is free.
 *   - Allocation and free are commands of their streams. Work on a block not ordered after the
 *     allocation is a race. A free not ordered after work on the block is a hazard of kind
 *     UNMAP_IN_USE. Work submitted after the free touches unmapped bytes.
 *   - Graphs have no memory nodes. In a capture, allocation and free answer
 *     STREAM_CAPTURE_UNSUPPORTED and invalidate the capture.
 *   - On the cost clock a new segment costs the creation, mapping and granting of one handle of its
 *     size. A segment that goes costs the unmapping and the release. A cost file may add a share
 *     per call. */
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
 *             profile:full         CUDA 13.2 (default)
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
 *               host_numa_crash    CUDA 13.1: cuMemCreate of host memory ends the process with
 *                                  SIGSEGV, after a line on standard error
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
 *             blocks:told          allocators tell of their blocks (pleat_sim_tell; default)
 *             blocks:untold        nobody listens
 *             waits:finish         a synchronisation finishes what it waits for (default)
 *             waits:refuse         a synchronisation that would have to wait answers NOT_READY: as
 *                                  if the GPU were at work for ever, but for a caller who asks
 *  Returns  0, or -1: a key or a value is unknown; pleat_sim_error names it.
 *  Failure  everything is as before.
 *  Threads  any; no other thread may use what is reset. cuInit stays valid.
 *  Source   Without a reset before cuInit, the environment variable PLEAT_SIM holds `conf`; not in
 *           a setuid program. */
PLEAT_SIM_API int pleat_sim_reset(const char *conf);

/** Configure the simulator to `conf`: reset it, if nothing lives in it that would go.
 *
 *  Returns  0: it was reset, or it is configured like that already and something lives in it; -1 as
 *           of pleat_sim_reset, and where it is configured otherwise while contexts, streams,
 *           events, graphs or memory live in it (but for pleat_sim_abandon), or after
 *           pleat_sim_keep.
 *  Failure  everything is as before.
 *  Threads  as pleat_sim_reset. Instances with sim:[...] call it. */
PLEAT_SIM_API int pleat_sim_configure(const char *conf);

/** Say that an owner is gone that could not give back all that it made, as calls were refused: the
 *  next pleat_sim_configure resets the simulator, unless streams or graphs live in it. An instance
 *  calls it whose end tells of objects that are left.
 *
 *  Threads  any. */
PLEAT_SIM_API void pleat_sim_abandon(void);

/** Keep the devices as PLEAT_SIM describes them: from now on pleat_sim_configure refuses others.
 *
 *  Params   who: what the devices belong to, for the error; for ever valid. NULL: they are no
 *           longer kept.
 *  Threads  any. */
PLEAT_SIM_API void pleat_sim_keep(const char *who);

/** Tell why the last refused configuration, cost file, fault or mapping was wrong.
 *
 *  Returns  a text, empty if nothing was; valid until the next such error.
 *  Owner    the simulator. */
PLEAT_SIM_API const char *pleat_sim_error(void);

/** Tell whether the devices' memory has contents: whether the configuration says backing:memory.
 *
 *  Threads  any. */
PLEAT_SIM_API bool pleat_sim_has_contents(void);

/** An access of declared work, as a range of a device's addresses. bytes may be 0. */
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

/** Begin an operation of the calling thread: kernels that the thread launches from now on touch
 *  accesses[0..n), and the blocks that the thread allocates meanwhile (pleat_sim_op_kernel).
 *
 *  Shape    the list is copied.
 *  Params   place: a number of the caller's, which hazards tell; 0 = none.
 *  Failure  none: an operation that was not ended ends here.
 *  Threads  any; takes no lock. */
PLEAT_SIM_API void pleat_sim_op_begin(uint64_t place, const pleat_sim_access *accesses, size_t n);

/** End the operation. Without an operation it does nothing.
 *
 *  Returns  how many hazards there were since the reset, by all threads. */
PLEAT_SIM_API uint64_t pleat_sim_op_end(void);

/** Submit a kernel: as pleat_sim_work, with the accesses of the thread's operation; without an
 *  operation with none. Memory of other devices counts only if the stream's device can reach it. */
PLEAT_SIM_API int pleat_sim_op_kernel(void *stream);

/** What an allocator tells of its blocks. */
typedef enum pleat_sim_told {
    PLEAT_SIM_TOLD_BLOCK, /* a block of `bytes` at `ptr` begins, for `stream`; 0 bytes: unknown. Of
                             a block that lives there the place is noted, and nothing else */
    PLEAT_SIM_TOLD_BYTES, /* the size of the block at `ptr`, untold so far; 0: for ever unknown */
    PLEAT_SIM_TOLD_FREE,  /* the block at `ptr` is not the program's any more; with `bytes` 1 REUSE,
                             too */
    PLEAT_SIM_TOLD_REUSE, /* the freed block's bytes may be used again: by the next request on its
                             stream, or with `bytes` 1 by whomever the allocator chooses */
    PLEAT_SIM_TOLD_JOIN,  /* blocks within [ptr, ptr + bytes) may be used as one */
    PLEAT_SIM_TOLD_PART,  /* no longer; `ptr` as in the JOIN */
    PLEAT_SIM_TOLD_OWN,   /* work of the calling thread is the allocator's own: `bytes` 1 or 0 */
    PLEAT_SIM_TOLD_DISCARD /* live blocks that the calling thread unmaps lose their contents:
                              `bytes` 1 or 0; with `ptr` 1 the contents are back after all */
} pleat_sim_told;

/** Tell the simulator of a block, so that work on freed blocks and beyond ends is a hazard.
 *
 *  Params   stream: as pleat_sim_work, for BLOCK. place: where in the program, a number of the
 *           teller's; 0 = unknown.
 *  Returns  whether blocks are heard of at all: not under blocks:untold, in a forked child, and
 *           before the first configuration. What is unknown is ignored.
 *  Threads  any. The caller may hold locks of its own. */
PLEAT_SIM_API bool pleat_sim_tell(pleat_sim_told what, void *stream, uint64_t ptr, uint64_t bytes,
                                  uint64_t place);

/** Tell whether work of a stream has touched a block, live or freed.
 *
 *  Params   ptr: of the block that was told of last at this address.
 *  Returns  false: none has. true: some has, or nobody can tell: there is no such block or stream,
 *           the block's size is unknown, or the stream has run a kernel whose accesses are unknown.
 *  Threads  any. */
PLEAT_SIM_API bool pleat_sim_may_use(uint64_t ptr, void *stream);

/** A function of Python, laid out as Python's PyMethodDef. */
typedef struct pleat_sim_method {
    const char *name;
    void (*call)(void);
    int flags;
    const char *doc;
} pleat_sim_method;

/** The calls that a check in Python makes for each operation, for PyCFunction_NewEx: op_begin,
 *  op_end and tell, as above; and where in the program's own code the caller is, as a place.
 *
 *  Returns  for ever valid; the last one's name is NULL. */
PLEAT_SIM_API const pleat_sim_method *pleat_sim_methods(void);

/** Submit work that fills [ptr, ptr + bytes) at its end with a pattern made of `seed`.
 *
 *  Units    as pleat_sim_work with one write. With backing:none it does nothing else.
 *  Returns  as pleat_sim_work. */
PLEAT_SIM_API int pleat_sim_fill(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);

/** Submit work that compares [ptr, ptr + bytes) at its end with the pattern of `seed`.
 *
 *  Units    as pleat_sim_work with one read. ptr and seed as in the fill; bytes at most as many.
 *  Returns  as pleat_sim_work. A difference is a hazard of kind PLEAT_SIM_CONTENTS. */
PLEAT_SIM_API int pleat_sim_verify(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);

/** Submit lasting work that writes [ptr, ptr + bytes) on `stream`, after all work submitted to
 *  `after`. Neither `depth` nor pleat_sim_advance ends a use, only pleat_sim_use_end or a
 *  synchronisation that waits for the use. Later work of the stream comes after it.
 *
 *  Params   use [out]: what pleat_sim_use_end takes. Both streams are created ones.
 *  Returns  as pleat_sim_work; INVALID_VALUE also where `use` is NULL, NOT_SUPPORTED where one of
 *           the streams is captured. */
PLEAT_SIM_API int pleat_sim_use(void *stream, void *after, uint64_t ptr, uint64_t bytes,
                                uint64_t *use);

/** End a use of the stream, with all earlier work that the use waits for. Ending a finished use is
 *  no error.
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

/** Make the k-th matching call from now on only answer `code`.
 *
 *  Params   call: an entry point's name ("cuMemMap"), or NULL for any call that changes the
 *           driver's state: queries, cuInit, cuCtxPopCurrent and cuThreadExchange... are not
 *           counted then, but can be named. k: 0 = the next one. code: a CUresult.
 *  Failure  up to 64 rules may be in force; more, or an unknown name, set pleat_sim_error and are
 *           printed on stderr, since a test that lost its fault would pass without testing
 *           anything. */
PLEAT_SIM_API void pleat_sim_fail_at(const char *call, uint64_t k, int code);

/** Make the k-th matching call and every later match answer `code`; see pleat_sim_fail_at. */
PLEAT_SIM_API void pleat_sim_fail_from(const char *call, uint64_t k, int code);

/** Let every later call that works on a device answer `code`, as after a kernel that faulted. 0
 *  ends the fault.
 *
 *  Units    code: a CUresult, such as 700 (ILLEGAL_ADDRESS) or 719 (LAUNCH_FAILED). */
PLEAT_SIM_API void pleat_sim_break(int code);

/** Forget all faults that have not struck yet. */
PLEAT_SIM_API void pleat_sim_fail_never(void);

/** A delay that only yields to other threads. */
#define PLEAT_SIM_YIELD 0xffffffffU

/** Let every matching call sleep before taking effect, so that races show reliably.
 *
 *  Units    `us`: microseconds of real time, at most 10 seconds; 0 = none any more; PLEAT_SIM_YIELD
 *           = sched_yield. The cost clock does not notice.
 *  Params   call: an entry point's name, one of this header's that stands in the log
 *           (pleat_sim_work), or NULL for all of the driver's.
 *  Failure  an unknown name sets pleat_sim_error and is printed on stderr.
 *  Threads  any; the calling thread sleeps, outside every lock of the simulator. */
PLEAT_SIM_API void pleat_sim_delay(const char *call, unsigned us);

/** Let every matching call sleep between its effect and its return; see pleat_sim_delay. */
PLEAT_SIM_API void pleat_sim_delay_after(const char *call, unsigned us);

/** Count the calls that a fault has answered since the reset. */
PLEAT_SIM_API uint64_t pleat_sim_n_faults(void);

/** What the simulator holds. Reservations, streams, events, graphs and lost objects always count
 *  all devices. */
typedef struct pleat_sim_counts {
    uint64_t reservations, handles, mappings, allocations; /* live driver objects */
    uint64_t streams, events, graphs, contexts;            /* graphs: executable ones too */
    uint64_t reserved_bytes, physical_bytes, mapped_bytes; /* physical: also pools' bytes */
    uint64_t peak_physical_bytes;
    uint64_t capacity_bytes;
    uint64_t unfinished_work;
    uint64_t hazards;
    uint64_t calls;          /* of cu* entry points, refused ones too */
    uint64_t lost_objects;   /* went with their context instead of being destroyed */
    uint64_t pools;          /* of cuMemPoolCreate, not yet destroyed */
    uint64_t pool_bytes;     /* physical bytes of pools, default and destroyed pools too */
    uint64_t user_objects;   /* whose destructor was not called yet */
    uint64_t imported_bytes; /* of memory created by another process; not in physical_bytes */
    uint64_t host_bytes;     /* pinned host memory of the whole process; not in physical_bytes */
} pleat_sim_counts;

/** Tell what the simulator holds.
 *
 *  Params   device: an ordinal, or < 0 for all together (then peak_physical_bytes is the sum of
 *           the devices' peaks). out [out].
 *  Returns  0, or -1: no such device, or never configured. */
PLEAT_SIM_API int pleat_sim_count(int device, pleat_sim_counts *out);

/** Tell whether all work that could race was compared.
 *
 *  Returns  UINT64_MAX: all since the reset was. Else `depth`: work has ended by its age alone, and
 *           more than one stream has had work, so two works that lie further apart than that were
 *           not compared unless somebody waited in between.
 *  Threads  any. */
PLEAT_SIM_API uint64_t pleat_sim_compared(void);

/** Count the calls of one entry point since the reset ("cuMemMap"), including refused calls. */
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
    PLEAT_SIM_RACE,            /* two streams, unordered, overlap in physical bytes, with a write */
    PLEAT_SIM_CONTENTS,        /* memory mode: verify found wrong bytes */
    PLEAT_SIM_CALL_IN_DESTRUCTOR, /* of a user object; the call answers NOT_PERMITTED */
    PLEAT_SIM_DEAD_HANDLE,        /* dead_handles:hazard: `ptr` is a destroyed stream or event */
    PLEAT_SIM_LATE_USE,           /* work touches a block that was freed before its submission */
    PLEAT_SIM_BEYOND_BLOCK,       /* work begins in a block and ends behind the block's end */
    PLEAT_SIM_NO_CONTENTS,        /* work reads what a sleep has discarded */
    PLEAT_SIM_EARLY_FREE /* a block was freed under another stream's work, and its stream's next
                            request may get the bytes */
} pleat_sim_hazard_kind;

typedef struct pleat_sim_hazard {
    pleat_sim_hazard_kind kind;
    uint64_t ptr;
    uint64_t bytes;
    uint64_t call; /* log number of the call that revealed the hazard */
    /* The rest is 0 where it does not apply. */
    uint64_t other_call;           /* of the earlier work */
    uint64_t stream, other_stream; /* ids, as in the text */
    uint64_t place, other_place;   /* of the operations (pleat_sim_op_begin) */
    uint64_t block_ptr, block_bytes;
    uint64_t born_place, freed_place; /* as pleat_sim_tell was told */
    char text[512];
} pleat_sim_hazard;

/** Copy up to n hazards in order of discovery; at most 1,024 are kept.
 *
 *  Shape    out has room for n; may be NULL when n is 0.
 *  Returns  how many there were since the reset, kept or not. */
PLEAT_SIM_API size_t pleat_sim_hazards(pleat_sim_hazard *out, size_t n);

/** Write the call log as JSON lines to a file, with all calls under log:full, else the last 4,096.
 *
 *  Returns  0, or -1: the file could not be written. */
PLEAT_SIM_API int pleat_sim_write_log(const char *path);

#ifdef __cplusplus
}
#endif

#endif
