/* room.h - what is told of a room, the memory of the blocks of one tag, and of its sleep. */
#ifndef PLEAT_SEGMENTS_BASE_ROOM_H
#define PLEAT_SEGMENTS_BASE_ROOM_H

#include "vmm/base/pleat_types.h"

/* What becomes of the contents of live blocks. */
typedef struct pl_sleep_how {
    bool is_kept;       /* else they are lost */
    const char *folder; /* is_kept: of the file that they go to; NULL = memory of the host */
} pl_sleep_how;

/* What a sleep gave back, or a wake brought. Bytes of device memory. */
typedef struct pl_slept {
    uint64_t bytes;        /* that went back to the driver, or that came */
    uint64_t shared_bytes; /* a sleep: that stay, since others use them, too */
    uint64_t kept_bytes;   /* whose contents are kept, or came back */
    uint64_t left_bytes;   /* a wake: that are still missing */
    uint64_t needed_bytes; /* a wake: that it had to have from the driver, also where it fails */
} pl_slept;

typedef struct pl_room_figures {
    pleat_stat blocks;          /* live */
    pleat_stat allocated_bytes; /* of these, rounded */
    pleat_stat requested_bytes;
    uint64_t resident_bytes; /* of device memory in it now, free memory included */
    uint64_t asleep_bytes;   /* of device memory that it has given back while it sleeps */
    uint64_t kept_bytes;     /* whose contents are kept elsewhere */
    uint64_t limit_bytes;    /* 0 = none */
    uint64_t n_sleeps;
    bool is_asleep;
} pl_room_figures;

#endif
