/* name.h - names of shared blocks: what travels between processes.
 *
 *   | header: who, where, how much | chunk | chunk | ... |
 *
 * All of it is written, in the order of the machine's bytes, and a sum guards it, so that the same
 * address of the same block always has the same name, and what was cut or changed is recognised. */
#ifndef PLEAT_API_SHARE_NAME_H
#define PLEAT_API_SHARE_NAME_H

#include "api/pleat.h"
#include "vmm/share.h"

enum { PL_NAME_VERSION = 1, PL_NAME_FD = 1 };

typedef struct pl_name {
    char magic[8];
    uint32_t version;
    uint32_t handle_type; /* PL_NAME_FD */
    uint64_t sum;         /* of what follows, chunks included */
    uint64_t process[2];  /* of the exporter: serve.h */
    pleat instance;       /* there, like the next three */
    int32_t device;
    int32_t pid;
    uint32_t user;
    uint32_t is_served;
    int32_t domain; /* of the device, for everybody */
    int32_t bus;
    int32_t slot;
    uint32_t is_simulated;
    uint64_t n;           /* chunks */
    uint64_t skip_bytes;  /* from the first chunk's start to the named address */
    uint64_t block_bytes; /* from there to the block's end */
} pl_name;

static inline size_t pl_name_bytes(size_t n_chunks)
{
    return sizeof(pl_name) + n_chunks * sizeof(pl_shared_chunk);
}

/* Fill in magic, version, type and sum, and write the whole name: pl_name_bytes(name->n). */
void pl_name_write(pl_name *name, const pl_shared_chunk *chunks, void *out);
/* Copy the header. False: these bytes are no whole name. */
bool pl_name_read(const void *from, size_t bytes, pl_name *out);
/* Copy the chunks of a name that was read. */
void pl_name_read_chunks(const void *from, const pl_name *name, pl_shared_chunk *out);

#endif
