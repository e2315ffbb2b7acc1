/* ask.h - gets descriptors of shared chunks from the process that shares them. */
#ifndef PLEAT_API_SHARE_ASK_H
#define PLEAT_API_SHARE_ASK_H

#include "api/share/held.h"

/* A conversation. It has the descriptors of the chunks [first, first + n_fds). */
typedef struct pl_asker {
    const pl_name *name;           /* const */
    const pl_shared_chunk *chunks; /* const */
    size_t first;
    size_t n_fds;
    pl_held held;
} pl_asker;

/* Connect to the name's process. PLEAT_OK; ESHARE, with the error's text. */
pleat_status pl_asker_begin(pl_asker *asker, const pl_name *name, const pl_shared_chunk *chunks);
/* The pl_fd_source of an asker: PLEAT_OK; ESHARE, with the error's text. */
pleat_status pl_asker_fd(void *asker, size_t i, int *fd);
void pl_asker_end(pl_asker *asker);

#endif
