/* segments_sim.h - the pleat allocator on a simulated device, for tests.
 *
 * State is global, since every test runs in a separate process. The end, pleat_close, asserts that
 * every walker passes, the simulator and host memory are empty, and no hazard was seen. */
#ifndef PLEAT_TESTS_SEGMENTS_SIM_H
#define PLEAT_TESTS_SEGMENTS_SIM_H

#include "segments/pleat/space/options.h"
#include "tests/support/vmm/vmm_sim.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

enum { PLEAT_N_STREAMS = 5 };

typedef struct pleat_fixture {
    vmm_sim sim;
    pl_device *dev;
    pl_allocator *a;
    pl_stream *streams[PLEAT_N_STREAMS]; /* [0] is the legacy default stream */
    cu_stream handles[PLEAT_N_STREAMS];
    bool has_failed_undo; /* set by tests whose driver refuses to take things back */
    unsigned walk_every;  /* calls between two walks; 0 = 1: walk after each call */
    unsigned n_unwalked;
} pleat_fixture;

extern pleat_fixture pleat;

/* Make a device and streams on a simulator with this configuration, and the allocator; NULL =
 * defaults. The device's context is current afterwards, as in programs. */
void pleat_open(const char *sim_conf, const pl_allocator_options *options);
void pleat_open_device(const char *sim_conf, const pl_device_options *device_options,
                       const pl_allocator_options *options);
/* pleat_open with a chunk for each granule. */
void pleat_open_granules(const char *sim_conf);
/* pleat_open with these options, and defaults for the rest. */
void pleat_open_with(const char *sim_conf, pl_cross_stream cross_stream, uint32_t wait_ms);
void pleat_close(void); /* live blocks go, too */
/* Destroy stream i, even with pending work, and make a new stream, perhaps with the same handle. */
void pleat_renew_stream(unsigned i);

/* The call must succeed. Every walker passes afterwards. */
pleat_devptr pleat_get(size_t bytes, unsigned stream);
void pleat_put(pleat_devptr ptr, unsigned stream);
void pleat_record(pleat_devptr ptr, unsigned stream);
uint64_t pleat_trim(uint64_t keep_bytes, bool wait); /* returns the bytes released */
/* The request must fail, and nothing visible to users may change. Returns the status. */
pleat_status pleat_refused(size_t bytes, unsigned stream);

pleat_block_info pleat_info(pleat_devptr ptr);
pleat_stats pleat_counted(void); /* asserts that the bytes add up */
/* pleat_counted, where chunks may have several granules: a pinned granule may hold free bytes. */
pleat_stats pleat_counted_mixed(void);
void pleat_assert_sound(void);
/* Walk only after each `walk_every` calls. A walk's cost grows with the live blocks, so tests with
 * many blocks need this. Set it once the allocator is open. */
void pleat_walk_every(unsigned n_calls);

/* Declares work: a write to [ptr, ptr + bytes). With a large depth the work finishes only when the
 * host waits for it. */
void pleat_work(unsigned stream, pleat_devptr ptr, size_t bytes);
/* Allocate a block, and use it at once as a program does. */
pleat_devptr pleat_get_and_use(size_t bytes, unsigned stream);
/* pleat_work behind the work of stream `before`, since a program orders its own uses. */
void pleat_work_after(unsigned stream, unsigned before, pleat_devptr ptr, size_t bytes);
uint64_t pleat_calls(const char *symbol); /* of an entry point since the reset */
/* Pieces of runs looked at so far, and steps of long work between which the lock may be dropped. */
uint64_t pleat_steps(void);

#endif
