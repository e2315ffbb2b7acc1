/* runtime.h - shared by the files of the simulated runtime, with the thread, its errors, its log.
 *
 * Every exported call has the same form. rt_enter makes a context of the thread's device current,
 * the driver's calls follow, and rt_end notes a failure. A driver's result is the runtime's error
 * with the same number. */
#ifndef PLEAT_RUNTIME_H
#define PLEAT_RUNTIME_H

#include <stdbool.h>

#include "vmm/tools/runtime/runtime_api.h"

enum { RT_MAX_DEVICES = 16 };

/** Initialise the driver once, and make the primary context of this thread's device current.
 *
 *  Returns  CU_SUCCESS, or what the driver says.
 *  Threads  any; retaining a device's context takes a lock, later calls of the thread take none. */
cu_result rt_enter(void);

/** Initialise the driver only, for calls that a program may make before having a context. */
cu_result rt_init(void);

/** Change this thread's device. With `is_opened`, also create its context. */
cu_result rt_set_device(int device, bool is_opened);
int rt_device(void);

/** Note a failure as the thread's last error, print it on stderr if PLEAT_RUNTIME_LOG is set, and
 *  return it. NOT_READY is not logged. */
rt_error rt_end(const char *call, int result);

/** Like rt_end, for a call that is not simulated. Always logged, once per name. */
rt_error rt_unsupported(const char *call);

/** Note that this process uses the device and must report at exit. */
void rt_report_begin(void);

/* ---- host memory that the device knows ---- */
bool rt_host_is_pinned(const void *ptr);

/* ---- work ---- */
cu_result rt_work(cu_stream stream);          /* a kernel: takes only its time on the stream */
bool rt_is_capturing(cu_stream stream);       /* false where the driver refuses to tell */
cu_result rt_finish_stream(cu_stream stream); /* unless it is capturing */

/* ---- device ---- */
int rt_attribute(int attribute, int device); /* what the driver does not tell is made up */

/* ---- entry points ---- */
void *rt_find_symbol(const char *name); /* the driver's, without a version, or NULL */

static inline cu_devptr rt_address(const void *ptr)
{
    return (cu_devptr)(uintptr_t)ptr;
}

#endif
