/* vmm_green.h - green contexts of the simulator for tests of pleat. */
#ifndef PLEAT_TESTS_VMM_GREEN_H
#define PLEAT_TESTS_VMM_GREEN_H

#include "vmm/driver.h"

typedef struct vmm_green {
    pl_driver *drv;
    cu_green_ctx green;
    cu_context context; /* to be made current */
    cu_stream stream;   /* one of it */
} vmm_green;

/* Make one of all multiprocessors of device 0; a primary context is retained. */
void vmm_green_make(pl_driver *drv, vmm_green *out);
void vmm_green_push(const vmm_green *it); /* make it current */
void vmm_green_pop(const vmm_green *it);
/* Destroy the context, not the stream. */
void vmm_green_end(const vmm_green *it);

#endif
