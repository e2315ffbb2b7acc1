/* budget.cpp - see budget.hpp. */
#include "allocator.hpp"

#include <algorithm>

namespace pleat_torch
{

namespace
{

uint64_t limit_of_pleat(DeviceIndex device)
{
    pleat_device_info info;
    check(pleat_device_describe(instance(), device, &info), "the device could not be opened");
    return info.limit_bytes;
}

} // namespace

/* If pleat's limit is another than was written, somebody has set it since: for both together. */
Budget::Charge &Budget::look(DeviceIndex device)
{
    Charge &charge = charges_[device];
    const uint64_t limit = limit_of_pleat(device);
    if (limit != charge.written) {
        charge.limit = limit;
        charge.written = limit;
    }
    return charge;
}

/* Have pleat's limit follow. False: pleat cannot give back so much, and all is as before. */
bool Budget::write(DeviceIndex device, Charge &charge, const Charge &wanted)
{
    const bool has_room = wanted.bytes < wanted.limit;
    const uint64_t left = wanted.limit == 0 ? 0
                          : has_room        ? wanted.limit - wanted.bytes
                                            : 1; /* 0 would be no limit */
    if (left != charge.written &&
        pleat_device_set_limit(instance(), device, left) != PLEAT_OK) {
        return false;
    }
    charge = { wanted.bytes, wanted.limit, left };
    return true;
}

bool Budget::charge(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Charge &charge = look(device);
    const uint64_t sum = charge.bytes + bytes;
    return (charge.limit == 0 || sum <= charge.limit) &&
           write(device, charge, { sum, charge.limit, 0 });
}

void Budget::discharge(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Charge &charge = look(device);
    charge.bytes -= bytes;
    (void)write(device, charge, charge);
}

/* Where pleat's live blocks and others' memory exceed it together, though not pleat's alone, none
 * of them gets more. */
void Budget::set_limit(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Charge &charge = look(device);
    if (write(device, charge, { charge.bytes, bytes, 0 })) {
        return;
    }
    pleat_stats stats = {};
    (void)!pleat_device_stats(instance(), device, &stats);
    const uint64_t least = std::min(std::max<uint64_t>(stats.resident_bytes, 1), bytes);
    check(pleat_device_set_limit(instance(), device, least),
          "the memory fraction stays as it was");
    charge.limit = bytes;
    charge.written = least;
}

uint64_t Budget::limit(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return look(device).limit;
}

} // namespace pleat_torch
