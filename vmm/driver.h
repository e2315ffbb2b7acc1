/* driver.h - a driver: the table of entry points of libcuda or of the simulator, with counters.
 *
 * Two pl_driver_open of the same kind give two tables with separate counters over one loaded
 * object. Calls go through the wrappers pl_cu_NAME(driver, ...). They count,
 * and note CUresult, call and size of a failure in the thread's last error. All functions but open
 * and close may be called from any thread. */
#ifndef PLEAT_VMM_DRIVER_H
#define PLEAT_VMM_DRIVER_H

#include "vmm/base/pleat_types.h"
#include "vmm/driver_list.h"

#define PL_UNPAREN(...) __VA_ARGS__

typedef enum pl_entry {
#define PL_ENTRY_ENUM(field, symbol, need, params, args) PL_CU_##field,
    PL_DRIVER_LIST(PL_ENTRY_ENUM)
#undef PL_ENTRY_ENUM
        PL_N_ENTRIES
} pl_entry;

typedef struct pl_driver pl_driver;

typedef enum pl_driver_kind { PL_DRIVER_AUTO, PL_DRIVER_CUDA, PL_DRIVER_SIM } pl_driver_kind;

/** Open libcuda.so.1 (CUDA), libcuda.so.1 only with a device (AUTO), or the simulator (SIM). AUTO
 *  never takes the simulator, whose addresses in a real kernel corrupt memory or fault.
 *
 *  The environment variable PLEAT_SIM_LIBRARY names the simulator's file, except in a setuid
 *  program, where the environment is not ours. Otherwise the simulator is libpleat_sim.so
 *  beside the object with this code, or as found by the loader.
 *
 *  Params   sim_conf the configuration that the simulator is reset to, unless it has that one and
 *           is in use. NULL leaves it as it is; if it was never configured, PLEAT_SIM configures
 *           it. Ignored for CUDA.
 *  Returns  PLEAT_OK; ENODRIVER (last error's detail names the object or symbol that is missing,
 *           and PLEAT_SIM_LIBRARY where the simulator cannot be opened; AUTO: why there is no GPU,
 *           and driver:sim); EDRIVER (initialisation fails; AUTO: ENODRIVER; the detail has what is
 *           wrong in PLEAT_SIM); ENOMEM_HOST; ECONF (bad sim_conf, or a reset would pull away what
 *           the program has made: see the detail).
 *  Failure  nothing is left behind except, perhaps, the loaded object.
 *  Owner    the caller, until pl_driver_close. */
pleat_status pl_driver_open(pl_driver_kind kind, const char *sim_conf, pl_driver **out);

/** Say that something is left in the driver that nobody owns any more: a simulator that is
 *  configured next does not take it for the program's. */
void pl_driver_abandon(pl_driver *drv);

/** Say that this process is a tool with devices of its own: beneath pleat-runtime, too, sim_conf
 *  then resets the simulator. Call it before the first pl_driver_open. */
void pl_driver_own_sim(void);

/** Open the GPU's driver where there is a GPU, else the simulator. Measurements run on either. The
 *  rest is as for pl_driver_open. */
pleat_status pl_driver_open_any(const char *sim_conf, pl_driver **out);

/** Forget the table and its counters. The shared object stays loaded. NULL is fine. */
void pl_driver_close(pl_driver *drv);

pl_driver_kind pl_driver_kind_of(const pl_driver *drv); /* CUDA or SIM */

/** Is the driver the simulator, even if opened as the system's driver (libcuda.so.1)? */
bool pl_driver_is_simulator(const pl_driver *drv);
/* Can the process do no more on the GPU after this result? Each later call then returns the same
 * result. */
bool pl_driver_is_sticky(cu_result result);
bool pl_driver_has(const pl_driver *drv, pl_entry entry);
uint64_t pl_driver_n_calls(const pl_driver *drv, pl_entry entry);
uint64_t pl_driver_call_ns(const pl_driver *drv); /* time in calls; 0 unless timing is on */
void pl_driver_time_calls(pl_driver *drv, bool on);
/* Be told of every timed call, after the call, on its thread. The thread may hold locks of the
 * allocator, so the watcher calls nothing of pleat. `failure` is 0, or the CUresult of a call that
 * failed. NULL = nobody. No call is under way meanwhile. */
typedef void (*pl_driver_call_fn)(pl_entry entry, int failure, uint64_t bytes, void *context);
void pl_driver_watch(pl_driver *drv, pl_driver_call_fn see, void *context);
const char *pl_entry_symbol(pl_entry entry); /* "cuMemCreate", without _v2 */

/* Counts objects that an undo could not give back and that have no other counter, such as the
 * context of a device whose opening failed. */
uint64_t pl_driver_n_lost(const pl_driver *drv);
void pl_driver_note_lost(pl_driver *drv);

/* What the simulator hears of blocks: pleat_sim_told, which it explains (pleat_sim.h). */
typedef enum pl_told {
    PL_TOLD_BLOCK,
    PL_TOLD_BYTES,
    PL_TOLD_FREE,
    PL_TOLD_REUSE,
    PL_TOLD_JOIN,
    PL_TOLD_PART,
    PL_TOLD_OWN,
    PL_TOLD_DISCARD,
} pl_told;
typedef bool (*pl_tell_fn)(pl_told what, void *stream, uint64_t ptr, uint64_t bytes,
                           uint64_t place);
/** Whom to tell of blocks; NULL: nobody, as the driver is no simulator, or one that does not
 *  listen. */
pl_tell_fn pl_driver_teller(const pl_driver *drv);

/** A further symbol of the same shared object (the simulator's own API), or NULL. */
void *pl_driver_symbol(const pl_driver *drv, const char *name);

/* The failure of this thread's last failing driver call. */
typedef struct pl_driver_error {
    cu_result result; /* CU_SUCCESS: no call failed, only `detail` counts */
    pl_entry entry;   /* PL_N_ENTRIES: none */
    uint64_t bytes;   /* the call's size argument, 0 if it has none */
    const char *text; /* static: name of the result */
    char detail[256]; /* the loader's or pleat's own words, may be empty */
    uint64_t number;  /* pl_driver_n_errors when noted; 0 = none noted */
} pl_driver_error;
const pl_driver_error *pl_driver_last_error(void);
/* Was the driver out of memory, and how much would the call have taken? 0 for a call without
 * memory, such as a mapping. */
bool pl_driver_refused_memory(const pl_driver_error *error, uint64_t *bytes);
void pl_driver_set_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pl_driver_clear_error(void);
/* Failures and details noted so far, by all threads. A caller reads the count before a piece of
 * work, at the price of one load. Afterwards the count tells the work's error from an older
 * error. */
extern _Atomic uint64_t pl_driver_n_errors;
void pl_driver_clear_error_before(uint64_t number); /* keeps errors noted after that reading */

/* The counting wrappers: cu_result pl_cu_mem_create(pl_driver *drv, cu_mem_handle *handle, ...).
 * A missing optional entry point answers CU_NOT_FOUND. */
#define PL_DECLARE_WRAPPER(field, symbol, need, params, args)                                      \
    cu_result pl_cu_##field(pl_driver *drv, PL_UNPAREN params);
PL_DRIVER_LIST(PL_DECLARE_WRAPPER)
#undef PL_DECLARE_WRAPPER

/** Block until all work of the current context is over, destroyed streams included. The call takes
 *  no argument, so it is not in the list and not counted. While any thread captures a stream of the
 *  context, the driver refuses the call and invalidates the capture. */
cu_result pl_cu_ctx_synchronize(pl_driver *drv);
bool pl_driver_can_synchronize(const pl_driver *drv);

/** Tell which device is current on the calling thread; 0 if none is, as in the CUDA runtime.
 *
 *  Returns  PLEAT_OK; EDRIVER. */
pleat_status pl_driver_current_device(pl_driver *drv, int *out);

/** Translate a CUresult: OUT_OF_MEMORY -> ENOMEM_DEVICE, NOT_SUPPORTED or NOT_FOUND of a VMM call
 *  (by the thread's last error) -> ENOVMM, the STREAM_CAPTURE codes -> ECAPTURE, the rest ->
 *  EDRIVER. */
pleat_status pl_driver_status(cu_result result);

#endif
