/* pass.c - see pass.h. */
#include "segments/pleat/streams/pass.h"

#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/shared.h"

enum { USES_A_HOLD = 1024 }; /* demands of all blocks passed in one hold */

/* Let at most n blocks of the line go on, and stop after some demands. */
static size_t pass_line(pl_space *space, const pl_line *line, uint64_t upto, size_t n,
                        uint64_t since)
{
    size_t n_passed = 0;
    size_t n_uses = 0;

    for (; n_passed < n && n_uses < USES_A_HOLD && !pl_space_is_tired(space, since); n_passed++) {
        pl_block *b = line->queue.first;
        if (b == NULL || b->stamp > upto) {
            break;
        }
        if (b->state == PL_BLOCK_FREE) {
            pl_run_move(space, b, PL_LANE_SETTLED, 0);
        } else {
            pl_shared_leave_line(space, b);
            n_uses += pl_shared_go_on(space, b);
        }
    }
    pl_lock_touch(n_passed);
    return n_passed;
}

/* Shared blocks first, as some may pend on the same lane next. */
size_t pl_pass(pl_space *space, const pl_clock *clock, uint64_t upto, size_t n, uint64_t since)
{
    size_t n_passed = 0;

    for (int kind = 0; kind < PL_N_LINES; kind++) {
        n_passed += pass_line(space, &clock->lines[kind], upto, n - n_passed, since);
    }
    return n_passed;
}
