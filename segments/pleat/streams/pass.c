/* pass.c - see pass.h. */
#include "segments/pleat/streams/pass.h"

#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/shared.h"

/* A block that goes on is a piece of work, and so is each of its demands. */
static size_t pass_line(pl_space *space, const pl_line *line, uint64_t upto, uint64_t since)
{
    size_t n_passed = 0;

    for (; !pl_space_is_tired(space, since); n_passed++) {
        pl_block *b = line->queue.first;
        if (b == NULL || b->stamp > upto) {
            break;
        }
        pl_space_work(space, 1);
        if (b->state == PL_BLOCK_FREE) {
            pl_run_move(space, b, PL_LANE_SETTLED, 0);
        } else {
            pl_shared_leave_line(space, b);
            pl_shared_go_on(space, b);
        }
    }
    return n_passed;
}

/* Shared blocks first, as some may pend on the same lane next. */
size_t pl_pass(pl_space *space, const pl_clock *clock, uint64_t upto, uint64_t since)
{
    size_t n_passed = 0;

    for (int kind = 0; kind < PL_N_LINES; kind++) {
        n_passed += pass_line(space, &clock->lines[kind], upto, since);
    }
    return n_passed;
}
