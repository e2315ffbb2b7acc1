/* weigh.c - see weigh.h. */
#include "bench/import/weigh.h"

static uint64_t size_of(const bench_pickle_value *event)
{
    const bench_pickle_value *size = bench_pickle_get(event, "size");
    bool is_size = size && size->kind == BENCH_PICKLE_INTEGER && size->as.integer > 0;
    return is_size ? (uint64_t)size->as.integer : 0;
}

uint64_t bench_trace_weigh(const bench_pickle_value *trace)
{
    uint64_t live = 0;
    uint64_t most = 0;
    const bench_pickle_node *list = trace->as.node;
    for (uint32_t i = 0; i < list->n; i++) {
        const bench_pickle_value *event = &list->items[i];
        const bench_pickle_value *action = event->kind == BENCH_PICKLE_DICT
                                               ? bench_pickle_get(event, "action")
                                               : NULL;
        if (!action || bench_pickle_is_text(action, "oom")) {
            return UINT64_MAX; /* of an action that is no text reading complains */
        }
        live += bench_pickle_is_text(action, "alloc") ? size_of(event) : 0;
        uint64_t freed = bench_pickle_is_text(action, "free_requested") ? size_of(event) : 0;
        live -= freed < live ? freed : live;
        most = live > most ? live : most;
        most += most == 0 && !bench_pickle_is_text(action, "snapshot");
    }
    return list->has_dropped ? most + 1 : most;
}
