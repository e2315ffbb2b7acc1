/* heap_figures.h - figures of a heap (the memory of one tag's blocks) and of its sleep. */
#ifndef PLEAT_SEGMENTS_BASE_HEAP_H
#define PLEAT_SEGMENTS_BASE_HEAP_H

#include "vmm/base/pleat_types.h"

/* What becomes of the contents of live blocks. */
typedef struct pl_sleep_how {
    bool is_kept;       /* false: the contents are lost */
    const char *folder; /* is_kept: folder of the file for the contents; NULL = host memory */
} pl_sleep_how;

/* Device memory that a sleep gave back or a wake brought, in bytes. */
typedef struct pl_slept {
    uint64_t bytes;        /* given back to the driver, or brought */
    uint64_t shared_bytes; /* sleep: stays at the driver, since other processes use it */
    uint64_t kept_bytes;   /* with contents stored, or brought back */
    uint64_t left_bytes;   /* wake: still missing */
    uint64_t needed_bytes; /* wake: had to come from the driver, also if the wake fails */
} pl_slept;

typedef struct pl_heap_figures {
    pleat_stat blocks;          /* live */
    pleat_stat allocated_bytes; /* of live blocks, rounded */
    pleat_stat requested_bytes;
    uint64_t resident_bytes; /* device memory in the heap now, free memory included */
    uint64_t asleep_bytes;   /* device memory given back for the sleep */
    uint64_t kept_bytes;     /* with contents stored elsewhere */
    uint64_t limit_bytes;    /* 0 = none */
    uint64_t n_sleeps;
    bool is_asleep;
} pl_heap_figures;

#endif
