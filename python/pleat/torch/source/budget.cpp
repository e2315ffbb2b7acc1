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
    check(pleat_device_query(instance(), device, &info), "the device could not be opened");
    return info.limit_bytes;
}

} // namespace

/* If pleat's limit differs from the written limit, somebody has set a limit for both together. */
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

/* Of pleat; 0 would be no limit. */
uint64_t Budget::left_of(const Charge &charge)
{
    const bool has_room = charge.bytes < charge.limit;
    return charge.limit == 0 ? 0 : has_room ? charge.limit - charge.bytes : 1;
}

/* Update pleat's limit. False: pleat cannot give back enough, and all is as before. */
bool Budget::write(DeviceIndex device, Charge &charge, const Charge &wanted)
{
    const uint64_t left = left_of(wanted);
    if (left != charge.written && pleat_device_set_limit(instance(), device, left) != PLEAT_OK) {
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

/* If pleat's live blocks and other memory exceed the limit only together, nobody gets more: pleat
 * keeps memory over the limit until it can give that memory back (renew). */
void Budget::set_limit(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Charge &charge = look(device);
    if (write(device, charge, { charge.bytes, bytes, 0 })) {
        return;
    }
    pleat_stats stats = {};
    uint64_t released = 0;
    (void)!pleat_device_trim(instance(), device, 0, true, &released);
    (void)!pleat_device_stats(instance(), device, &stats);
    const uint64_t least = std::min(std::max<uint64_t>(stats.resident_bytes, 1), bytes);
    check(pleat_device_set_limit(instance(), device, least), "the memory fraction stays as it was");
    charge.limit = bytes;
    charge.written = least;
}

void Budget::renew(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = charges_.find(device);
    if (at != charges_.end() && left_of(at->second) != at->second.written) {
        Charge &charge = look(device);
        pleat_stats stats = {};
        (void)!pleat_device_stats(instance(), device, &stats);
        const uint64_t least = std::max(left_of(charge), stats.resident_bytes);
        if (!write(device, charge, charge) && least < charge.written &&
            pleat_device_set_limit(instance(), device, least) == PLEAT_OK) {
            charge.written = least;
        }
    }
}

uint64_t Budget::limit(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return look(device).limit;
}

} // namespace pleat_torch
