/* meter.c - see meter.h. Keeps no state except the averages. */
#include "vmm/meter.h"

#include "vmm/base/clock.h"
#include "vmm/device_state.h"

/* EVENT_NS: a training step of half a second makes some ten thousand allocations and frees. */
enum { AVERAGE_LOG2 = 3, EVENT_NS = 50000 };

/* driver580.cost, for chunks of a granule */
static const uint64_t published_ns[PL_N_METERS] = {
    [PL_METER_MAP] = 70000,
    [PL_METER_UNMAP] = 39000,
};

void pl_meter_init(pl_meter *meter)
{
    for (int i = 0; i < PL_N_METERS; i++) {
        atomic_init(&meter->ns[i], published_ns[i]);
    }
}

uint64_t pl_meter_begin(const pl_device *dev)
{
    return pl_driver_now_ns(dev->drv);
}

void pl_meter_end(pl_device *dev, pl_meter_kind kind, uint64_t begin_ns, size_t n)
{
    uint64_t now_ns = pl_driver_now_ns(dev->drv);
    uint64_t each_ns = now_ns > begin_ns ? (now_ns - begin_ns) / n : 0;
    uint64_t old_ns = pl_meter_ns(dev, kind);

    atomic_store_explicit(&dev->meter.ns[kind],
                          old_ns - (old_ns >> AVERAGE_LOG2) + (each_ns >> AVERAGE_LOG2),
                          memory_order_relaxed);
}

uint64_t pl_meter_ns(const pl_device *dev, pl_meter_kind kind)
{
    return atomic_load_explicit(&dev->meter.ns[kind], memory_order_relaxed);
}

uint64_t pl_meter_elapsed_ns(const pl_device *dev, uint64_t n_events)
{
    return pl_driver_is_simulator(dev->drv) ? n_events * EVENT_NS : pl_clock_ns();
}
