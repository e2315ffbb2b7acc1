/* range.c - reserved spans of device address space.
 *
 * Upholds: address_bytes == the sum of the ranges held and the ranges being asked for, and
 * address_bytes never exceeds the device's budget. A size is booked before the driver is asked and
 * given back when the driver refuses; no lock is needed. Drivers report a lack of addresses as "out
 * of memory", or as an invalid value beyond the largest address space. In this file both results
 * mean addresses, not memory. */
#include "vmm/range.h"

#include "vmm/device_state.h"

#define MOST_ADDRESSES ((size_t)1 << 47) /* a device shares them with the host's user space */

/* Rounds up to granules; false when the result does not fit or is absurd. */
static bool round_up(const pl_device *dev, size_t bytes, size_t *out)
{
    size_t granule = dev->granule_bytes;
    size_t n = bytes / granule + (bytes % granule != 0 ? 1 : 0);
    return !__builtin_mul_overflow(n != 0 ? n : 1, granule, out);
}

uint64_t pl_range_left_bytes(const pl_device *dev, uint64_t *budget_bytes)
{
    uint64_t held = atomic_load_explicit(&dev->n.address_bytes, memory_order_relaxed);
    *budget_bytes = dev->address_budget_bytes;
    return dev->address_budget_bytes > held ? dev->address_budget_bytes - held : 0;
}

/* Books `most_bytes`, or the rest of the budget if that is less, but at least `least_bytes`.
 * Returns the booked bytes, or 0 when less than the least is left. */
static size_t book(pl_device *dev, size_t most_bytes, size_t least_bytes)
{
    uint64_t held = atomic_load_explicit(&dev->n.address_bytes, memory_order_relaxed);
    size_t booked;
    do {
        uint64_t budget = dev->address_budget_bytes;
        uint64_t left = budget > held ? budget - held : 0;
        left -= left % dev->granule_bytes;
        booked = most_bytes < left ? most_bytes : (size_t)left;
        if (booked < least_bytes) {
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(&dev->n.address_bytes, &held, held + booked,
                                                    memory_order_relaxed, memory_order_relaxed));
    return booked;
}

/* Half of `bytes` in whole granules, but not less than the least. */
static size_t half_of(const pl_device *dev, size_t bytes, size_t least_bytes)
{
    size_t half = bytes / 2;
    half -= half % dev->granule_bytes;
    return half > least_bytes ? half : least_bytes;
}

static cu_result ask(pl_device *dev, size_t bytes, pl_range *out)
{
    size_t granule = dev->granule_bytes;
    bool is_power = (granule & (granule - 1)) == 0;
    cu_devptr base = 0;
    int mode = pl_scope_relax(dev);
    cu_result result = pl_cu_address_reserve(dev->drv, &base, bytes, is_power ? granule : 0, 0, 0);
    pl_scope_restore_mode(dev, mode);
    if (result == CU_SUCCESS) {
        *out = (pl_range){ .base = base, .bytes = bytes };
    }
    return result;
}

pleat_status pl_range_reserve(pl_device *dev, size_t want_bytes, size_t least_bytes, pl_range *out)
{
    size_t want;
    size_t least;
    if (!round_up(dev, least_bytes, &least) || !round_up(dev, want_bytes, &want)) {
        return PLEAT_ESIZE;
    }
    want = want > least ? want : least;
    for (;;) {
        size_t booked = book(dev, want, least);
        if (booked == 0) {
            pl_driver_clear_error();
            pl_driver_set_detail("%zu bytes do not fit the address budget of %llu", least,
                                 (unsigned long long)dev->address_budget_bytes);
            return PLEAT_ENOSPACE_VA;
        }
        cu_result result = ask(dev, booked, out);
        if (result == CU_SUCCESS) {
            pl_count_add(&dev->n.n_ranges, 1);
            return PLEAT_OK;
        }
        pl_count_sub(&dev->n.address_bytes, booked);
        bool is_refusal = result == CU_OUT_OF_MEMORY ||
                          (result == CU_INVALID_VALUE &&
                           (booked > least || booked >= MOST_ADDRESSES));
        if (!is_refusal) {
            return pl_driver_status(result);
        }
        if (booked == least) {
            return PLEAT_ENOSPACE_VA;
        }
        want = half_of(dev, booked, least);
    }
}

void pl_range_count(pl_device *dev, size_t bytes)
{
    pl_count_add(&dev->n.n_ranges, 1);
    pl_count_add(&dev->n.address_bytes, bytes);
}

pleat_status pl_range_release(pl_device *dev, pl_range range)
{
    int mode = pl_scope_relax(dev);
    cu_result result = pl_cu_address_free(dev->drv, range.base, range.bytes);
    if (result != CU_SUCCESS) {
        result = pl_cu_address_free(dev->drv, range.base, range.bytes);
    }
    pl_scope_restore_mode(dev, mode);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    pl_count_sub(&dev->n.n_ranges, 1);
    pl_count_sub(&dev->n.address_bytes, range.bytes);
    return PLEAT_OK;
}
