/* oom.h - why memory was short, in numbers and in one sentence. */
#ifndef PLEAT_API_OOM_H
#define PLEAT_API_OOM_H

#include "api/instance.h"
#include "api/text.h"

/* The numbers behind a refusal, all in bytes. Taken just after it: other threads may have moved. */
typedef struct pl_shortage {
    uint64_t request;  /* as asked */
    uint64_t chunk;    /* least that is created; 0 = of any size */
    uint64_t total;    /* of the device */
    uint64_t free;     /* what the driver calls free */
    bool has_free;     /* the driver answered */
    uint64_t limit;    /* 0 = none */
    uint64_t resident; /* held by this instance on the device */
    uint64_t live;     /* granules under live blocks; for a classic cache its blocks */
    uint64_t pinned;
    uint64_t idle_free; /* free and settled */
    uint64_t pending;
    uint64_t idle;
    uint64_t address;           /* address space reserved */
    uint64_t foreign;           /* of the device, held by neither this instance nor nobody */
    uint64_t in_pools;          /* of resident: held by private pools */
    pleat_pool_id largest_pool; /* the one with the most, if any has */
    bool is_movable; /* the allocator can gather its free bytes: all but the classic caches */
} pl_shortage;

/* The verdict and its sentence with all the numbers. Calls the driver once; holds no lock. */
pleat_verdict pl_oom_explain(pl_gpu *gpu, size_t bytes, pleat_status status, pl_text *text);

/* Set the error for a device on which not even the driver's context finds memory: nothing can be
 * measured there, but whoever holds it is not this instance. Returns ENOMEM_DEVICE. */
pleat_status pl_oom_refuse_context(int device);

/* The verdict alone, from numbers; status is ENOMEM_DEVICE, EPENDING or ENOSPACE_VA. */
pleat_verdict pl_oom_judge(const pl_shortage *shortage, pleat_status status);

#endif
