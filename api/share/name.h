/* name.h - names of shared memory: bytes that travel between processes.
 *
 *   | header: who, where, how much | chunk | chunk | ... | block | ... |
 *
 * Every byte is written, in the machine's byte order: the same address of the same block always has
 * the same name. A sum guards the bytes, so that a cut or changed name is recognised. */
#ifndef PLEAT_API_SHARE_NAME_H
#define PLEAT_API_SHARE_NAME_H

#include "api/pleat.h"
#include "segments/base/allocator.h"

enum { PL_NAME_VERSION = 2, PL_NAME_FD = 1 };

typedef struct pl_name {
    char magic[8];
    uint32_t version;
    uint32_t handle_type; /* PL_NAME_FD */
    uint64_t sum;         /* of the bytes behind it, chunks and blocks included */
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
    uint64_t n_blocks;    /* 1, unless a tag was named */
    uint64_t skip_bytes;  /* from the first chunk's start to the named address; 0 of a tag */
    uint64_t block_bytes; /* from there to the end of the named memory; of all chunks of a tag */
} pl_name;

static inline size_t pl_name_bytes(size_t n_chunks, size_t n_blocks)
{
    return sizeof(pl_name) + n_chunks * sizeof(pl_shared_chunk) +
           n_blocks * sizeof(pl_shared_block);
}

/* Fill in magic, version, type and sum, and write the whole name (pl_name_bytes). */
void pl_name_write(pl_name *name, const pl_shared_chunk *chunks, const pl_shared_block *blocks,
                   void *out);
/* Copy the header. False: the bytes are no whole name. */
bool pl_name_read(const void *from, size_t bytes, pl_name *out);
/* Copy the chunks of a name already read. */
void pl_name_read_chunks(const void *from, const pl_name *name, pl_shared_chunk *out);
/* Copy one of its blocks, i < name->n_blocks. */
void pl_name_read_block(const void *from, const pl_name *name, size_t i, pl_shared_block *out);

#endif
