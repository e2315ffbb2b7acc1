/* state.h - what the recorded run held when its snapshot was taken, as a moment (moment.h).
 *
 *   segment  |## a ##|--- free ---|# b #|     free, and stranded: the segment stays while a lives
 *   segment  |---------- free ----------|     free, and returnable: empty_cache() gives it back
 *
 * S1  held = live + pending + stranded + returnable
 *
 * An expandable segment goes back by pages, whose sizes moment.h tells. Nothing is replayed. */
#ifndef PLEAT_BENCH_STATE_H
#define PLEAT_BENCH_STATE_H

#include "bench/run/moment.h"

typedef struct bench_state_figures {
    uint64_t held_bytes;
    uint64_t live_bytes; /* of whole blocks, rounding included */
    uint64_t pending_bytes;
    uint64_t stranded_bytes;
    uint64_t returnable_bytes;
    uint64_t largest_free_bytes; /* the largest free block */
    uint64_t n_segments;
    uint64_t n_free_segments; /* of them wholly free */
    uint64_t n_live;          /* blocks */
    bool has_pages;           /* some segment is expandable */
} bench_state_figures;

/* Does the snapshot itself tell more than its history? There is none, or hardly any; or the run
 * ended out of memory, and this is the moment. */
bool bench_state_matters(const bench_origin *origin);
/* Fill a zeroed moment, whose pieces are born as 1 + their index in the state, and the figures.
 * False and a message when out of host memory. */
bool bench_state_take(const bench_origin *origin, bench_moment *moment, bench_state_figures *out,
                      bench_failure *failure);

#endif
