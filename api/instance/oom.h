/* oom.h - why memory was short, in numbers and in one sentence. */
#ifndef PLEAT_API_OOM_H
#define PLEAT_API_OOM_H

#include "api/base/text.h"
#include "api/instance/short.h"

/* The numbers behind a refusal, all in bytes. Read after the refusal: other threads may have
 * changed the state meanwhile. */
typedef struct pl_shortage {
    uint64_t request;  /* as asked */
    uint64_t chunk;    /* least bytes of one creation; 0 = any size */
    uint64_t total;    /* of the device */
    uint64_t free;     /* free, according to the driver */
    bool has_free;     /* the driver answered */
    uint64_t limit;    /* 0 = none */
    uint64_t resident; /* held by this instance on the device */
    uint64_t live;     /* granules under live blocks; in a classic cache its live blocks */
    uint64_t pinned;
    uint64_t tied;      /* free, but in chunks that are partly in use */
    pl_tied would;      /* of these */
    uint64_t idle_free; /* free and settled */
    uint64_t pending;
    uint64_t idle;
    uint64_t address;           /* address space reserved */
    uint64_t foreign;           /* in use, but not by this instance */
    bool is_host;               /* the memory is the host's: no context lies in it */
    uint64_t in_pools;          /* of resident: held by private pools */
    pleat_pool_id largest_pool; /* the pool that holds most, if any holds memory */
    bool is_movable; /* the allocator can gather its free bytes: all except the classic caches */
    bool is_refused; /* the driver was out of memory in a call for `refused` bytes */
    uint64_t refused;
    uint32_t wait_ms;    /* what the options allow against pending memory */
    bool is_unordered;   /* streams are not ordered after each other */
    bool is_known_by_id; /* so a stream can be waited for only where a call names it */
    bool is_compacted;   /* short:compact is in force */
    bool is_torch;       /* PyTorch asked: the text names what Python has */
    pleat_status moved;  /* why that moved nothing; PLEAT_OK: it was not enough */
} pl_shortage;

/* The verdict and its sentence with all numbers. `moved`: how a compaction for the request ended;
 * PLEAT_OK: well, or there was none. `driver`: its failure in the request, or none. Calls the
 * driver once; holds no lock. */
pleat_verdict pl_oom_explain(const pl_want *w, pleat_status status, pleat_status moved,
                             const pl_driver_error *driver, pl_text *text);

/* Set the error for a device without memory for the driver's context. Nothing can be measured then,
 * but this instance does not hold the memory. Returns ENOMEM_DEVICE. */
pleat_status pl_oom_refuse_context(int device);

/* The verdict alone, from numbers; status is ENOMEM_DEVICE, EPENDING or ENOSPACE_VA. */
pleat_verdict pl_oom_judge(const pl_shortage *shortage, pleat_status status);

#endif
