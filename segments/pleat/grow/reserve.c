/* reserve.c - see reserve.h. */
#include "segments/pleat/grow/reserve.h"

enum { SHARE_LOG2 = 6 };

/* On a small device the share counts: libraries need more memory the more they work on. */
size_t pl_reserve_of(const pl_space *space)
{
    size_t share = space->total_chunks >> SHARE_LOG2;
    size_t most = (size_t)(space->options.reserve_bytes >> space->granule_log2);

    return share < most ? share : most;
}

size_t pl_reserve_cap(const pl_space *space, size_t cap)
{
    size_t kept = space->n_others + space->reserve_chunks;
    size_t most = space->total_chunks > kept ? space->total_chunks - kept : 0;

    return most < cap ? most : cap;
}

bool pl_reserve_wants_to_know(const pl_space *space)
{
    return space->reserve_chunks > 0 && space->n_chunks >= space->ask_free_at;
}

void pl_reserve_learn(pl_space *space, size_t n_chunks, uint64_t free_bytes)
{
    size_t n_free = (size_t)(free_bytes >> space->granule_log2);
    size_t ours = n_chunks + n_free;

    space->n_others = space->total_chunks > ours ? space->total_chunks - ours : 0;
    size_t cap = pl_reserve_cap(space, space->total_chunks);
    space->ask_free_at = n_chunks + 1 + (cap > n_chunks ? (cap - n_chunks) / 2 : 0);
}
