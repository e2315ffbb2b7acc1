/* api_sim.h - instances on the simulator for the tests of api, and the simulator's own figures. */
#ifndef PLEAT_TESTS_API_SIM_H
#define PLEAT_TESTS_API_SIM_H

#include "api/pleat.h"
#include "pleat_sim.h"

/* The allocators that every api test runs under, by loop index. */
extern const char *const api_allocators[];
enum { N_API_ALLOCATORS = 3, API_TORCH = 0, API_PLEAT = 1, API_TORCH_EXPANDABLE = 2 };

/* The simulator's own interface, filled by api_sim_load(). */
typedef struct api_sim {
    int (*reset)(const char *conf);
    int (*work)(void *stream, const pleat_sim_access *accesses, size_t n);
    int (*fill)(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);
    int (*verify)(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);
    int (*use)(void *stream, void *after, uint64_t ptr, uint64_t bytes, uint64_t *use);
    int (*use_end)(void *stream, uint64_t use);
    void (*finish)(void);
    void (*fail_at)(const char *call, uint64_t k, int code);
    void (*fail_from)(const char *call, uint64_t k, int code);
    void (*fail_never)(void);
    void (*broken)(int code);
    uint64_t (*n_faults)(void);
    int (*count)(int device, pleat_sim_counts *out);
    size_t (*hazards)(pleat_sim_hazard *out, size_t n);
    uint64_t (*n_calls)(const char *call);
    void (*delay)(const char *call, unsigned us);
    void (*delay_after)(const char *call, unsigned us);
} api_sim;
extern api_sim sim;

/* Fixture: sets PLEAT_CONF=driver:sim and fills `sim`. */
void api_sim_load(void);
/* Checks that no reservation, handle, mapping, allocation, event or context is left, and no hazard
 * was recorded. */
void api_sim_check_empty(void);
pleat_sim_counts api_sim_counts(void);

/* Make an instance with this allocator on a fresh simulator. `more`: further keys, may be "". */
pleat api_make(int allocator, const char *sim_conf, const char *more);
/* Destroy the instance, with everything freed, and check that the simulator is empty. */
void api_unmake(pleat instance);

/* These calls must succeed. */
pleat_devptr api_alloc(pleat instance, int device, size_t bytes, void *stream);
void api_free(pleat instance, int device, pleat_devptr ptr, void *stream);
pleat_stats api_stats(pleat instance, int device);
void api_check(pleat instance);               /* every walker passes */
void *api_stream(pleat instance, int device); /* a new stream of the device's context */
void api_stream_end(pleat instance, int device, void *stream);
/* Let `later`, of any device, wait for the work submitted to `earlier`, of `device`. */
void api_stream_order(pleat instance, int device, void *earlier, void *later);

/* The last error must have this status, and its text all of `parts` (NULL at the end). */
void api_expect_error(pleat_status status, const char *const *parts);
#define api_expect(status, ...) api_expect_error(status, (const char *const[]){ __VA_ARGS__, NULL })

#endif
