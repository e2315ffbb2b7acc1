/* api_compliance.h - tests every allocator's duties through the public interface.
 *
 * The suites api_compliance_*_test.c run each test under every registered allocator. Each allocator
 * is a test case (CK_RUN_CASE=pleat runs only pleat). A policy of only some allocators is a trait.
 * A test of a trait also asserts the behaviour without the trait. */
#ifndef PLEAT_TESTS_API_COMPLIANCE_H
#define PLEAT_TESTS_API_COMPLIANCE_H

#include <check.h>

#include "api/pleat.h"
#include "pleat_sim.h"
#include "vmm/tools/measure/measure_work.h"

/* clang-format off */
typedef enum compliance_trait {
    /* Freed memory is kept and serves the next request of its size without the driver. */
    COMPLIANCE_CACHES = 1 << 0,
    /* A free block serves smaller requests, and free neighbours merge. */
    COMPLIANCE_SPLITS = 1 << 1,
    /* Free memory between live blocks serves a request larger than any piece of it. */
    COMPLIANCE_GATHERS = 1 << 2,
    /* Recoveries count as num_alloc_retries, PyTorch's statistic. */
    COMPLIANCE_COUNTS_RETRIES = 1 << 3,
    /* Memory of other streams is handed out again at once, after the host waited for them. Other
     * allocators hold the memory back until the uses are known to be over. */
    COMPLIANCE_WAITS_ON_REUSE = 1 << 4,
    /* Memory of other streams is handed out again at once. The new stream waits for them on the
     * GPU. */
    COMPLIANCE_ORDERS_ON_REUSE = 1 << 8,
    /* Memory freed by another stream, whose uses are over, is handed out before the driver is
     * asked. */
    COMPLIANCE_SHARES_STREAMS = 1 << 5,
    /* Regions of the device double in size: up to half of the memory asked for may stay unused. */
    COMPLIANCE_DOUBLES = 1 << 6,
    /* Memory freed by a stream during its capture is withheld until the graph is gone. */
    COMPLIANCE_WITHHOLDS = 1 << 7,
    /* The driver's pool. Its free memory, growth and shrinking are invisible. */
    COMPLIANCE_OPAQUE = 1 << 9,
} compliance_trait;
/* clang-format on */

typedef struct compliance_policy {
    const char *allocator;
    unsigned traits;
    size_t kibibyte_bytes; /* bytes that a request of 1 KiB occupies */
    size_t alignment;      /* every address is a multiple */
} compliance_policy;

enum { COMPLIANCE_STREAMS = 4 };

typedef struct compliance {
    pleat instance;
    const compliance_policy *policy;
    pl_work work; /* its context is current on the test's thread */
    void *streams[COMPLIANCE_STREAMS];
    __typeof__(pleat_sim_work) *sim_work;
    __typeof__(pleat_sim_fill) *sim_fill;
    __typeof__(pleat_sim_verify) *sim_verify;
    __typeof__(pleat_sim_finish) *sim_finish;
    __typeof__(pleat_sim_advance) *sim_advance;
    __typeof__(pleat_sim_count) *sim_count;
    __typeof__(pleat_sim_n_calls) *sim_n_calls;
    __typeof__(pleat_sim_hazards) *sim_hazards;
    __typeof__(pleat_sim_fail_from) *sim_fail_from;
    __typeof__(pleat_sim_fail_never) *sim_fail_never;
    __typeof__(pleat_sim_n_faults) *sim_n_faults;
} compliance;

/* Open an instance of this allocator on a fresh simulator, with streams. `more`: further keys, may
 * be "". */
compliance compliance_open(int allocator, const char *sim_conf, const char *more);
/* Finish all work, destroy the instance, which has no live block, and check that the simulator is
 * empty and saw no hazard. */
void compliance_close(compliance *c);

bool compliance_has(const compliance *c, compliance_trait trait);

/* Device 0. These calls must succeed. */
pleat_devptr compliance_alloc(compliance *c, size_t bytes, void *stream);
pleat_status compliance_try(compliance *c, size_t bytes, void *stream, pleat_devptr *out);
void compliance_free(compliance *c, pleat_devptr ptr, void *stream);
void compliance_record(compliance *c, pleat_devptr ptr, void *stream);
uint64_t compliance_trim(compliance *c); /* trims all with waits; returns the released bytes */
pleat_stats compliance_stats(compliance *c);
pleat_block_info compliance_query(compliance *c, pleat_devptr ptr);
/* Every walker passes. The statistics agree among themselves and with the simulator. */
void compliance_check(compliance *c);
/* The request must be refused for lack of device memory, and nothing that must stay may change. */
void compliance_refused(compliance *c, size_t bytes, void *stream);

/* Submit work on the stream that writes the whole block. If `depth` is never reached, the work is
 * unfinished until a wait for it, or compliance_finish. */
void compliance_use(compliance *c, void *stream, pleat_devptr ptr, size_t bytes);
void compliance_finish(compliance *c);
/* Order all work submitted to `later` from now on after the work submitted to `earlier`. */
void compliance_order(compliance *c, void *earlier, void *later);
pleat_sim_counts compliance_counts(const compliance *c);

/* Add the tests to the suite: a case for each allocator. */
void compliance_add(Suite *suite, const TTest *const *const tests[], size_t n);
/* compliance_add for tests that run several threads. */
void compliance_add_threads(Suite *suite, const TTest *const *const tests[], size_t n);

#endif
