/* segments_cache.h - one classic cache on a simulated device, for tests.
 *
 * State is global, since every test runs in its own process. cache_close asserts that every walker
 * passes, the simulator is empty and no hazard was seen. With assertions on, no host memory may be
 * left either. */
#ifndef PLEAT_TESTS_SEGMENTS_CACHE_H
#define PLEAT_TESTS_SEGMENTS_CACHE_H

#include "segments/base/allocator.h"
#include "tests/support/vmm/vmm_sim.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

enum { CACHE_N_STREAMS = 4, CACHE_MOST_PIECES = 16 };
enum { CACHE_OUT_OF_MEMORY = 2, CACHE_UNKNOWN = 999 }; /* CUresult */

typedef struct cache_fixture {
    vmm_sim sim;
    pl_device *dev;
    pl_allocator *a;
    pl_stream *streams[CACHE_N_STREAMS]; /* [0] is the legacy default stream */
    cu_stream handles[CACHE_N_STREAMS];
} cache_fixture;

extern cache_fixture cache;

pl_allocator_options cache_defaults(void);
/* `options` NULL = the defaults. The device's context is current afterwards. */
void cache_open(const pl_allocator_ops *ops, const char *sim_conf,
                const pl_allocator_options *options);
void cache_close(void); /* live blocks go, too */
/* cache_close after driver calls that could not be undone. Events may be lost, if the count reports
 * them. */
void cache_close_after_failed_undo(void);
void cache_destroy_stream(unsigned i); /* work may be pending on it */
void cache_create_stream(unsigned i);  /* its handle may be recycled */
/* Creation with `options` must be refused with ECONF and name `option`; "" = any text. */
void cache_refuses(const pl_allocator_ops *ops, const pl_allocator_options *options,
                   const char *option);

/* The call must succeed. Every walker passes afterwards. */
pleat_devptr cache_get(size_t bytes, unsigned stream);
void cache_put(pleat_devptr ptr); /* on the owner's stream */
void cache_put_on(pleat_devptr ptr, unsigned stream);
void cache_record(pleat_devptr ptr, unsigned stream);
uint64_t cache_trim(uint64_t keep_bytes, bool wait); /* returns the bytes released */
pleat_block_info cache_info(pleat_devptr ptr);
pleat_stats cache_stats(void); /* asserts that a visit's bytes add up to the figures */
uint64_t cache_resident(void);
void cache_assert_sound(void);

typedef struct cache_sight {
    size_t n;
    pl_piece pieces[CACHE_MOST_PIECES];
} cache_sight;

cache_sight cache_seen(void); /* everything that a visitor sees */

pleat_status cache_try(size_t bytes, unsigned stream, pleat_devptr *out);
/* The request must fail, and nothing visible to users may change. Returns the status. */
pleat_status cache_refused(size_t bytes, unsigned stream);
/* Checks everything that a failure must leave unchanged. */
void cache_assert_same(const pleat_stats *before);

/* Declares work: a write. With a large depth the work finishes only when the host waits for it. */
void cache_work(unsigned stream, pleat_devptr ptr, size_t bytes);
/* Order `later` behind `earlier`, as a program does before a second stream uses memory. */
bool cache_follow(unsigned later, unsigned earlier);
void cache_begin_capture(unsigned stream);
void cache_end_capture(unsigned stream);
void cache_release_capture(unsigned stream); /* the program reports that the graph is gone */
uint64_t cache_n_calls(void);                /* of all entry points since the reset */

#endif
