/* vmm_sim.h - a simulator for the tests of vmm: a driver table, and the simulator's own calls. */
#ifndef PLEAT_TESTS_VMM_SIM_H
#define PLEAT_TESTS_VMM_SIM_H

#include "pleat_sim.h"
#include "vmm/device.h"
#include "vmm/driver.h"

/* The simulator's own functions for tests, as the loaded object has them. */
/* clang-format off */
#define VMM_SIM_LIST(X) \
    X(reset) X(work) X(fill) X(verify) X(use) X(use_end) X(finish) X(fail_at) X(fail_from) \
    X(fail_never) X(n_faults) X(count) X(n_calls) X(cost_us) X(mappings) X(hazards)
/* clang-format on */

typedef struct vmm_sim {
    pl_driver *drv;
    bool has_hazards; /* set by tests that break a rule on purpose */
#define VMM_SIM_FIELD(name) __typeof__(pleat_sim_##name) *name;
    VMM_SIM_LIST(VMM_SIM_FIELD)
#undef VMM_SIM_FIELD
} vmm_sim;

/* Open the simulator and reset it to `conf`. The test fails if that is impossible. */
void vmm_sim_open(vmm_sim *sim, const char *conf);
/* Close the simulator. The test fails if the simulator is not empty, or saw a hazard. */
void vmm_sim_close(vmm_sim *sim);
/* The test fails unless nothing is reserved, created, mapped or allocated, and no event is left. */
void vmm_sim_assert_empty(const vmm_sim *sim);
pleat_sim_counts vmm_sim_counted(const vmm_sim *sim);

/* Open GPU 0 with the options (NULL = defaults). */
pl_device *vmm_sim_device(const vmm_sim *sim, const pl_device_options *options);
/* Close the device. The test fails if anything was still held. */
void vmm_sim_close_device(pl_device *dev);

/* A stream of the device's context, blocking or not. The caller destroys the stream. */
cu_stream vmm_sim_stream(pl_device *dev, bool is_blocking);
void vmm_sim_destroy_stream(pl_device *dev, cu_stream stream);
/* Submit work that finishes only when the device is waited for, or after `depth` more
 * submissions. */
void vmm_sim_submit(const vmm_sim *sim, pl_device *dev, cu_stream stream);

#endif
