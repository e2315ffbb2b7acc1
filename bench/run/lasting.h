/* lasting.h - repeats, in a replay, the uses of blocks on other streams; and the order of births.
 *
 * A use begins with work on the other stream, behind the block's own work so far, and with
 * pleat_block_record_stream. On the simulator this work stays unfinished until the replay ends the
 * use, or until the allocator waits. So the replay models a GPU whose host is far ahead. */
#ifndef PLEAT_BENCH_LASTING_H
#define PLEAT_BENCH_LASTING_H

#include "api/pleat.h"
#include "bench/run/moment.h"
#include "bench/works/work.h"
#include "vmm/tools/measure/measure_work.h"

/* Work of another stream on a block. */
typedef struct bench_lasting_use {
    uint32_t stream;
    uint64_t of_gpu; /* handle for ending the work */
    bool goes_on;
} bench_lasting_use;

typedef struct bench_lasting {
    const bench_work *work;
    const char *allocator; /* its name, for messages */
    pleat instance;
    pl_work *gpu;
    void *const *streams; /* handles, by number */
    bench_slot *slots;
    bench_lasting_use *uses; /* by number */
    bench_failure *failure;
} bench_lasting;

/* Begin or end the event's use. A refused block has no use. False and a message when the driver or
 * the allocator refuses. */
bool bench_lasting_event(bench_lasting *lasting, const bench_event *event);
/* End all current uses. */
bool bench_lasting_end(bench_lasting *lasting);

/* Write the live blocks into `order`, the oldest first; returns how many. */
size_t bench_lasting_order(const bench_lasting *lasting, bench_slot **order);

#endif
