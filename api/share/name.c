/* name.c - see name.h. No lock, no memory, no driver. */
#include "api/share/name.h"

#include <string.h>

static const char magic[8] = { 'p', 'l', 'e', 'a', 't', 's', 'h', 'r' };

_Static_assert(sizeof(pl_name) == 104 && sizeof(pl_shared_chunk) == 24, "no padding is written");

/* FNV-1a: against accidents, not against anybody. */
static uint64_t add_to_sum(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++) {
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static uint64_t sum_of(const pl_name *name, const void *chunks)
{
    size_t from = offsetof(pl_name, process);
    uint64_t sum = add_to_sum(UINT64_C(0xcbf29ce484222325), (const char *)name + from,
                              sizeof *name - from);
    return add_to_sum(sum, chunks, name->n * sizeof(pl_shared_chunk));
}

void pl_name_write(pl_name *name, const pl_shared_chunk *chunks, void *out)
{
    memcpy(name->magic, magic, sizeof magic);
    name->version = PL_NAME_VERSION;
    name->handle_type = PL_NAME_FD;
    name->sum = sum_of(name, chunks);
    memcpy(out, name, sizeof *name);
    memcpy((char *)out + sizeof *name, chunks, name->n * sizeof *chunks);
}

/* Sizes that could overflow a sum are no name's. */
static bool is_sound(const pl_name *name, const void *chunks)
{
    enum { MOST_LOG2 = 60 };
    uint64_t left = UINT64_C(1) << MOST_LOG2;
    for (size_t i = 0; i < name->n; i++) {
        pl_shared_chunk chunk;
        memcpy(&chunk, (const char *)chunks + i * sizeof chunk, sizeof chunk);
        if (chunk.bytes == 0 || chunk.bytes > left) {
            return false;
        }
        left -= chunk.bytes;
    }
    uint64_t all = (UINT64_C(1) << MOST_LOG2) - left;
    return name->block_bytes > 0 && name->skip_bytes < all &&
           name->block_bytes <= all - name->skip_bytes;
}

bool pl_name_read(const void *from, size_t bytes, pl_name *out)
{
    pl_name name;
    if (!from || bytes < sizeof name) {
        return false;
    }
    memcpy(&name, from, sizeof name);
    const char *chunks = (const char *)from + sizeof name;
    size_t n = (bytes - sizeof name) / sizeof(pl_shared_chunk);
    if (memcmp(name.magic, magic, sizeof magic) != 0 || name.version != PL_NAME_VERSION ||
        name.handle_type != PL_NAME_FD || n == 0 || name.n != n || bytes != pl_name_bytes(n) ||
        sum_of(&name, chunks) != name.sum || !is_sound(&name, chunks)) {
        return false;
    }
    *out = name;
    return true;
}

void pl_name_read_chunks(const void *from, const pl_name *name, pl_shared_chunk *out)
{
    memcpy(out, (const char *)from + sizeof *name, name->n * sizeof *out);
}
