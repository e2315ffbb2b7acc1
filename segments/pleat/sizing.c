/* sizing.c - see sizing.h. Guarded by the space's lock.
 *
 * A driver's time is spent per chunk, so large ones are made where memory is plentiful. But a chunk
 * stays where it is while anything lives in a part of it. So the fuller the device, the smaller the
 * chunks: the last ones that are created are what a full device moves about. */
#include "segments/pleat/sizing.h"
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/granule.h"

unsigned pl_sizing_order(const pl_space *space, size_t cap)
{
    static struct { unsigned permille; unsigned order; } steps[8] = {
        { 150, 5 }, { 400, 2 }, { 700, 1 },
    };
    static bool is_read;
    if (!is_read) {
        is_read = true;
        const char *e = getenv("PX_STEPS");
        if (e) {
            memset(steps, 0, sizeof steps);
            for (int i = 0; i < 8 && *e; i++) {
                char *q;
                steps[i].permille = (unsigned)strtoul(e, &q, 10);
                steps[i].order = (unsigned)strtoul(q + 1, &q, 10);
                e = *q == ',' ? q + 1 : q;
            }
        }
    }
    size_t held = space->n_chunks + space->n_creating;
    unsigned order = 0;

    if (space->options.chunks == PL_CHUNKS_GRANULE) {
        return 0;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps && order == 0; i++) {
        order = held * 1000 < cap * steps[i].permille ? steps[i].order : 0;
    }
    unsigned most = pl_order_of(held / space->options.chunk_share + 1);
    return order < most ? order : most;
}
