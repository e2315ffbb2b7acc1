/* segments_torch.h - one of PyTorch's caches on a simulated device, for tests.
 *
 * Globals: every test runs in a process of its own. torch_close asserts that nothing is left in the
 * simulator, that no host memory is and that no hazard was seen. */
#ifndef PLEAT_TESTS_SEGMENTS_TORCH_H
#define PLEAT_TESTS_SEGMENTS_TORCH_H

#include "segments/allocator.h"
#include "vmm/sim/pleat_sim.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

enum { TORCH_N_STREAMS = 4 };

typedef struct torch_sim {
    int (*work)(void *stream, const pleat_sim_access *accesses, size_t n);
    int (*fill)(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);
    int (*verify)(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);
    void (*finish)(void);
    void (*fail_at)(const char *call, uint64_t k, int code);
    void (*fail_from)(const char *call, uint64_t k, int code);
    void (*fail_never)(void);
    uint64_t (*n_faults)(void);
    int (*count)(int device, pleat_sim_counts *out);
    uint64_t (*n_calls)(const char *call);
} torch_sim;

typedef struct torch_fixture {
    pl_driver *drv;
    pl_device *dev;
    pl_allocator *a;
    pl_stream *streams[TORCH_N_STREAMS]; /* [0] is the legacy default stream */
    void *handles[TORCH_N_STREAMS];
    torch_sim sim;
} torch_fixture;

extern torch_fixture torch;

/* `options` NULL = the defaults. The simulator's configuration as at pleat_sim_reset. */
void torch_open_as(const pl_allocator_ops *ops, const char *sim_conf,
                   const pl_allocator_options *options);
void torch_open(const char *sim_conf, const pl_allocator_options *options); /* torch-native */
void torch_close(void);                                                     /* live blocks go too */
/* The same where even the undoing of driver calls failed: events may be lost, if that is told. */
void torch_close_after_failed_undo(void);

pleat_devptr torch_get(size_t bytes, unsigned stream); /* asserts success, and I1..I9 after it */
void torch_put(pleat_devptr ptr);                      /* on the owner's stream; the same */
pleat_block_info torch_info(pleat_devptr ptr);
pleat_stats torch_stats(void);
void torch_assert_sound(void);                                    /* every walker */
void torch_work(unsigned stream, pleat_devptr ptr, size_t bytes); /* declared work: a write */

#endif
