/* compact.c - see compact.h. */
#include "bench/run/compact.h"

bool bench_compact_now(pleat instance, bench_compactions *sum)
{
    pleat_compaction told;
    if (pleat_device_compact(instance, 0, &told) != PLEAT_OK) {
        return false;
    }
    sum->n++;
    sum->won_bytes += told.won_bytes;
    return true;
}

/* The request is tried again if something was won. */
static bool relieve(pleat instance, int device, size_t bytes, void *context)
{
    bench_compactions *sum = context;
    uint64_t before = sum->won_bytes;
    (void)device;
    (void)bytes;
    return bench_compact_now(instance, sum) && sum->won_bytes > before;
}

bool bench_compact_when_short(pleat instance, bench_compactions *sum)
{
    return pleat_set_pressure_callback(instance, relieve, sum) == PLEAT_OK;
}
