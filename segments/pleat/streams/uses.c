/* uses.c - see uses.h. */
#include "segments/pleat/streams/uses.h"

#include <string.h>

#include "segments/pleat/streams/capture.h"

/* Builds that walk everything have few uses of a block. A low limit lets tests reach sorted
 * lists. */
enum {
    USES_MIXED = PLEAT_DEBUG_LEVEL >= 2 ? 4 : 64, /* the most in an unsorted list */
    USES_SEARCHED = 256, /* newest uses by captures to search: mostly streams of one capture */
};

void pl_uses_drop(pl_space *space, const pl_block_use *use)
{
    if (use->lane != PL_LANE_CONTEXT) {
        pl_space_lane_at(space, use->lane)->n_refs--;
    }
    if (use->capture != NULL) {
        pl_capture_drop(space, use->capture);
    }
}

void pl_uses_drop_all(pl_space *space, pl_block *b)
{
    pl_block_uses *uses = b->uses;

    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        pl_uses_drop(space, &uses->use[i]);
        pl_lock_touch(1);
    }
    b->uses = NULL;
    pl_host_free(&space->host, uses);
}

/* Make room for one more use. */
static pleat_status reserve(pl_space *space, pl_block *b)
{
    pl_block_uses *uses = b->uses;

    if (uses != NULL && uses->n < uses->room) {
        return PLEAT_OK;
    }
    uint32_t room = uses == NULL ? 2 : uses->room * 2;
    uses = pl_host_realloc(&space->host, b->uses, sizeof(*uses) + room * sizeof(pl_block_use));
    if (uses == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    if (b->uses == NULL) {
        *uses = (pl_block_uses){ 0 };
    }
    uses->room = room;
    b->uses = uses;
    return PLEAT_OK;
}

pleat_status pl_uses_copy(pl_space *space, const pl_block *from, pl_block *to)
{
    const pl_block_uses *uses = from->uses;

    if (uses == NULL) {
        return PLEAT_OK;
    }
    size_t bytes = sizeof(*uses) + uses->room * sizeof(pl_block_use);
    pl_block_uses *copy = pl_host_alloc(&space->host, bytes);
    if (copy == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    memcpy(copy, uses, sizeof(*uses) + uses->n * sizeof(pl_block_use));
    for (uint32_t i = 0; i < uses->n; i++) {
        if (uses->use[i].lane != PL_LANE_CONTEXT) {
            pl_space_lane_at(space, uses->use[i].lane)->n_refs++;
        }
        if (uses->use[i].capture != NULL) {
            pl_capture_hold(uses->use[i].capture);
        }
    }
    pl_lock_touch(uses->n);
    to->uses = copy;
    return PLEAT_OK;
}

/* Search from the newest use down, since the newest are mostly wanted. */
static pl_block_use *search(pl_block_use *use, size_t n, const pl_lane *lane,
                            const pl_capture *capture)
{
    for (; n > 0; n--) {
        pl_lock_touch(1);
        if (use[n - 1].lane == lane->number && use[n - 1].capture == capture) {
            return &use[n - 1];
        }
    }
    return NULL;
}

static pl_block_use *find_use(pl_block_uses *uses, const pl_lane *lane, const pl_capture *capture)
{
    size_t n_captured = uses->n - uses->n_plain;

    if (!uses->is_sorted) {
        return search(uses->use, uses->n, lane, capture);
    }
    if (capture == NULL) {
        return search(uses->use, uses->n_plain, lane, NULL);
    }
    n_captured = n_captured < USES_SEARCHED ? n_captured : USES_SEARCHED;
    return search(&uses->use[uses->n - n_captured], n_captured, lane, capture);
}

/* Move the use at i, which has no capture, to the front part without captures. */
static void move_forward(pl_block_uses *uses, uint32_t i)
{
    pl_block_use plain = uses->use[i];

    uses->use[i] = uses->use[uses->n_plain];
    uses->use[uses->n_plain++] = plain;
}

static void add(pl_block_uses *uses, pl_block_use use)
{
    uses->use[uses->n++] = use;
    if (!uses->is_sorted && uses->n > USES_MIXED) {
        uses->is_sorted = true;
        for (uint32_t i = 0; i < uses->n; i++) {
            if (uses->use[i].capture == NULL) {
                move_forward(uses, i);
            }
        }
        pl_lock_touch(uses->n);
    } else if (uses->is_sorted && use.capture == NULL) {
        move_forward(uses, uses->n - 1);
    }
}

pleat_status pl_uses_add(pl_space *space, pl_block *b, pl_lane *lane, pl_capture *capture,
                         bool is_kept)
{
    pl_block_use *use = b->uses != NULL ? find_use(b->uses, lane, capture) : NULL;

    if (use != NULL) {
        use->is_kept = use->is_kept || is_kept;
        return PLEAT_OK;
    }
    pleat_status st = reserve(space, b);
    if (st != PLEAT_OK) {
        return st;
    }
    add(b->uses, (pl_block_use){ .capture = capture, .lane = lane->number, .is_kept = is_kept });
    lane->n_refs++;
    if (capture != NULL) {
        pl_capture_hold(capture);
    }
    return PLEAT_OK;
}
