/* lasting.c - repeats, in a replay, the uses of blocks on other streams. */
#include "bench/run/lasting.h"

#include <stdlib.h>

#include "bench/run/request.h"

static bool complain(const bench_lasting *l, const char *what, const char *why)
{
    return bench_fail(l->failure, "%s, %s: %s: %s", l->work->name, l->allocator, what, why);
}

static bool begin(bench_lasting *l, const bench_event *event)
{
    bench_slot *slot = &l->slots[bench_event_used_slot(event)];
    bench_lasting_use *use = &l->uses[bench_event_use(event)];
    void *stream = l->streams[event->stream];
    if (!slot->ptr || event->stream == slot->stream) {
        return true;
    }
    if (pl_work_use(l->gpu, stream, l->streams[slot->stream], slot->ptr, slot->bytes,
                    &use->of_gpu) != PLEAT_OK) {
        return complain(l, "a use of a live block failed", pl_driver_last_error()->text);
    }
    use->stream = event->stream;
    use->goes_on = true;
    slot->is_shared = true;
    return pleat_block_record_stream(l->instance, 0, slot->ptr, stream) == PLEAT_OK ||
           complain(l, "a use of a live block was refused", bench_request_error());
}

static bool end(bench_lasting *l, bench_lasting_use *use)
{
    bool was_on = use->goes_on;
    use->goes_on = false;
    return !was_on || pl_work_use_end(l->gpu, l->streams[use->stream], use->of_gpu) == PLEAT_OK ||
           complain(l, "a use of a block did not end", pl_driver_last_error()->text);
}

bool bench_lasting_event(bench_lasting *l, const bench_event *event)
{
    return event->slot == BENCH_USE ? begin(l, event) : end(l, &l->uses[bench_event_use(event)]);
}

bool bench_lasting_end(bench_lasting *l)
{
    for (uint32_t i = 0; i < l->work->n_uses; i++) {
        if (!end(l, &l->uses[i])) {
            return false;
        }
    }
    return true;
}

static int by_birth(const void *a, const void *b)
{
    const bench_slot *x = *(bench_slot *const *)a;
    const bench_slot *y = *(bench_slot *const *)b;
    return (x->born > y->born) - (x->born < y->born);
}

size_t bench_lasting_order(const bench_lasting *l, bench_slot **order)
{
    size_t n = 0;
    for (uint32_t i = 0; i < l->work->n_slots; i++) {
        if (l->slots[i].ptr) {
            order[n++] = &l->slots[i];
        }
    }
    qsort(order, n, sizeof *order, by_birth);
    return n;
}
