/* name.c - see name.h. No lock, no memory, no driver. */
#include "api/share/name.h"

#include <string.h>

static const char magic[8] = { 'p', 'l', 'e', 'a', 't', 's', 'h', 'r' };

_Static_assert(sizeof(pl_name) == 112 && sizeof(pl_shared_chunk) == 24 &&
                   sizeof(pl_shared_block) == 24,
               "no padding is written");

/* FNV-1a: against accidents, not against anybody. */
static uint64_t add_to_sum(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++) {
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static uint64_t sum_of(const pl_name *name, const void *chunks, const void *blocks)
{
    size_t from = offsetof(pl_name, process);
    uint64_t sum = add_to_sum(UINT64_C(0xcbf29ce484222325), (const char *)name + from,
                              sizeof *name - from);
    sum = add_to_sum(sum, chunks, name->n * sizeof(pl_shared_chunk));
    return add_to_sum(sum, blocks, name->n_blocks * sizeof(pl_shared_block));
}

static const char *blocks_in(const void *from, const pl_name *name)
{
    return (const char *)from + pl_name_bytes(name->n, 0);
}

void pl_name_write(pl_name *name, const pl_shared_chunk *chunks, const pl_shared_block *blocks,
                   void *out)
{
    memcpy(name->magic, magic, sizeof magic);
    name->version = PL_NAME_VERSION;
    name->handle_type = PL_NAME_FD;
    name->sum = sum_of(name, chunks, blocks);
    memcpy(out, name, sizeof *name);
    memcpy((char *)out + sizeof *name, chunks, name->n * sizeof *chunks);
    memcpy((char *)out + pl_name_bytes(name->n, 0), blocks, name->n_blocks * sizeof *blocks);
}

/* Adds up the chunks' bytes in *all. False for sizes that could overflow a sum, since no name has
 * such sizes. */
static bool add_chunks(const pl_name *name, const char *chunks, uint64_t *all)
{
    enum { MOST_LOG2 = 60 };
    uint64_t left = UINT64_C(1) << MOST_LOG2;
    for (size_t i = 0; i < name->n; i++) {
        pl_shared_chunk chunk;
        memcpy(&chunk, chunks + i * sizeof chunk, sizeof chunk);
        if (chunk.bytes == 0 || chunk.bytes > left) {
            return false;
        }
        left -= chunk.bytes;
    }
    *all = (UINT64_C(1) << MOST_LOG2) - left;
    return true;
}

static bool is_inside(uint64_t offset, uint64_t bytes, uint64_t all)
{
    return bytes > 0 && offset < all && bytes <= all - offset;
}

static bool is_sound(const pl_name *name, const void *from)
{
    uint64_t all;
    bool is_good = add_chunks(name, (const char *)from + sizeof *name, &all) &&
                   is_inside(name->skip_bytes, name->block_bytes, all);
    for (size_t i = 0; is_good && i < name->n_blocks; i++) {
        pl_shared_block block;
        pl_name_read_block(from, name, i, &block);
        is_good = block.offset >= name->skip_bytes &&
                  is_inside(block.offset - name->skip_bytes, block.bytes, name->block_bytes);
    }
    return is_good;
}

/* True if the name's numbers fit a name of `bytes` bytes. */
static bool has_size(const pl_name *name, size_t bytes)
{
    size_t most = bytes / sizeof(pl_shared_chunk); /* so that nothing overflows */
    return name->n > 0 && name->n <= most && name->n_blocks > 0 && name->n_blocks <= most &&
           pl_name_bytes(name->n, name->n_blocks) == bytes;
}

bool pl_name_read(const void *from, size_t bytes, pl_name *out)
{
    pl_name name;
    if (!from || bytes < sizeof name) {
        return false;
    }
    memcpy(&name, from, sizeof name);
    if (memcmp(name.magic, magic, sizeof magic) != 0 || name.version != PL_NAME_VERSION ||
        name.handle_type != PL_NAME_FD || !has_size(&name, bytes) ||
        sum_of(&name, (const char *)from + sizeof name, blocks_in(from, &name)) != name.sum ||
        !is_sound(&name, from)) {
        return false;
    }
    *out = name;
    return true;
}

void pl_name_read_chunks(const void *from, const pl_name *name, pl_shared_chunk *out)
{
    memcpy(out, (const char *)from + sizeof *name, name->n * sizeof *out);
}

void pl_name_read_block(const void *from, const pl_name *name, size_t i, pl_shared_block *out)
{
    memcpy(out, blocks_in(from, name) + i * sizeof *out, sizeof *out);
}
