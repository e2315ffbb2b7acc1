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

bool Budget::charge(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const uint64_t limit = limit_of_pleat(device);
    Charge &charge = charges_[device];
    if (limit != 0) {
        const uint64_t left = bytes < limit ? limit - bytes : 1; /* 0 would be no limit */
        if (bytes > limit || pleat_device_set_limit(instance(), device, left) != PLEAT_OK) {
            return false;
        }
        charge.off += limit - left;
    }
    charge.bytes += bytes;
    return true;
}

void Budget::discharge(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const uint64_t limit = limit_of_pleat(device);
    Charge &charge = charges_[device];
    charge.bytes -= bytes;
    const uint64_t back = std::min(charge.off, bytes);
    if (limit != 0 && back > 0 &&
        pleat_device_set_limit(instance(), device, limit + back) == PLEAT_OK) {
        charge.off -= back;
    }
}

void Budget::set_limit(DeviceIndex device, uint64_t bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Charge &charge = charges_[device];
    const uint64_t off = bytes == 0 ? 0 : std::min(charge.bytes, bytes - 1);
    check(pleat_device_set_limit(instance(), device, bytes - off),
          "the memory fraction stays as it was");
    charge.off = off;
}

uint64_t Budget::limit(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const uint64_t limit = limit_of_pleat(device);
    return limit == 0 ? 0 : limit + charges_[device].off;
}

} // namespace pleat_torch
