/* pleat.h - GPU memory that does not fragment.
 *
 * The public interface. Every function may be called from any thread; none crashes on bad input.
 * Every fallible one returns a pleat_status and writes its out-parameters on success only; more is
 * in pleat_last_error() of the same thread. */
#ifndef PLEAT_H
#define PLEAT_H

#include "pleat_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLEAT_VERSION_MAJOR 0
#define PLEAT_VERSION_MINOR 1
#define PLEAT_VERSION_PATCH 0

#if defined(__GNUC__)
#define PLEAT_API __attribute__((visibility("default")))
#define PLEAT_MUST_USE __attribute__((warn_unused_result))
#else
#define PLEAT_API
#define PLEAT_MUST_USE
#endif

/** One instance: all devices of one driver under one allocator. A value; copies mean the same
 *  instance. After pleat_destroy every use answers PLEAT_EGONE. */
typedef struct pleat {
    uint32_t slot;
    uint32_t generation;
} pleat;

/** What pleat_last_error tells of the calling thread's last failure. */
typedef struct pleat_error {
    pleat_status status;
    int driver_result;        /* CUresult, 0 if no driver call failed */
    const char *driver_call;  /* "cuMemCreate", or "" */
    uint64_t bytes;           /* size concerned, 0 if none */
    const char *text;         /* one sentence: what failed, what would help; valid until the
                                 thread's next failing call */
} pleat_error;

enum { PLEAT_DESTROY_FORCE = 1 }; /* destroy even if blocks live */

/** Called when device memory is short. May call pleat_block_alloc, pleat_block_free and queries on
 *  the same instance. Returns true if it freed something: then the request is tried again. */
typedef bool (*pleat_pressure_fn)(pleat instance, int device, size_t bytes, void *context);
/** Called once before a request fails with PLEAT_ENOMEM_DEVICE. May free; cannot change the verdict. */
typedef void (*pleat_oom_fn)(pleat instance, int device, size_t bytes, const char *text,
                             void *context);

PLEAT_API PLEAT_MUST_USE pleat_status pleat_create(const char *conf, pleat *out);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_default(pleat *out);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_destroy(pleat instance, unsigned flags);

PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_alloc(pleat instance, int device, size_t bytes,
                                                        void *stream, pleat_devptr *out);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_free(pleat instance, int device,
                                                       pleat_devptr ptr, void *stream);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_record_stream(pleat instance, int device,
                                                                pleat_devptr ptr, void *stream);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_query(pleat instance, int device,
                                                        pleat_devptr ptr, pleat_block_info *out);

/* The malloc-like pair, on the default instance. Errors only in pleat_last_error. */
PLEAT_API void *pleat_malloc(size_t bytes, int device, void *stream);
PLEAT_API void pleat_free(void *ptr, size_t bytes, int device, void *stream);

PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_trim(pleat instance, int device,
                                                        uint64_t keep_bytes, bool wait,
                                                        uint64_t *released);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_set_limit(pleat instance, int device,
                                                             uint64_t bytes);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_memory_info(pleat instance, int device,
                                                               uint64_t *free_bytes,
                                                               uint64_t *total_bytes);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_stats(pleat instance, int device,
                                                         pleat_stats *out);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_reset_peaks(pleat instance, int device);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_release_capture(pleat instance, int device,
                                                                   void *stream);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_check(pleat instance, int *broken);

PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_pressure_callback(pleat instance,
                                                                  pleat_pressure_fn fn,
                                                                  void *context);
PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_oom_callback(pleat instance, pleat_oom_fn fn,
                                                             void *context);

PLEAT_API const pleat_error *pleat_last_error(void);
PLEAT_API const char *pleat_status_text(pleat_status status);
PLEAT_API const char *pleat_version(void);

#ifdef __cplusplus
}
#endif

#endif
