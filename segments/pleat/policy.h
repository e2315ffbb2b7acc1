/* policy.h - when memory is created, and when it is taken instead.
 *
 * Creating costs memory, taking costs driver time again and again. The option `growth` says which
 * is dearer. Guarded by the space's lock; nothing here fails or drops it. */
#ifndef PLEAT_SEGMENTS_POLICY_H
#define PLEAT_SEGMENTS_POLICY_H

#include "segments/pleat/request.h"

/* Granules that may still be created until `target` are held. */
static inline size_t pl_policy_room(const pl_space *space, size_t target)
{
    size_t held = space->n_chunks + space->n_creating;

    return target > held ? target - held : 0;
}

/* Granules that may be created before any is taken, for a request that pins n_pin further ones. */
size_t pl_policy_slack(const pl_space *space, size_t cap, size_t n_pin);
/* Would creating what is missing leave the device with far more granules than are needed? */
bool pl_policy_is_too_much(const pl_space *space, size_t n_missing, size_t n_needed);
/* How many chunks may be taken before any beyond the slack is created; SIZE_MAX = all. */
size_t pl_policy_most_taken(pl_space *space, const pl_request *rq, size_t n_missing);

/* A flight has spent so long on creating. */
void pl_policy_note_created(pl_space *space, uint64_t ns);
/* It has spent so long on chunks that are smaller than they had to be. */
void pl_policy_note_frugal(pl_space *space, uint64_t ns);
/* A flight has taken so much. */
void pl_policy_note_taken(pl_space *space, size_t n_chunks, size_t n_granules);
/* A flight was committed: notes whether the program needs clearly more than ever. */
void pl_policy_note_grown(pl_space *space);

#endif
