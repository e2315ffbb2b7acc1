/* budget.hpp - the memory fraction, which also counts memory of other allocators: pleat's limit is
 * lower by that amount. */
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "versions.hpp"

namespace pleat_torch
{

class Budget
{
public:
    /* Count bytes that another allocator is about to give. False: together with memory that pleat
     * cannot give back they exceed the limit; nothing is counted. */
    bool charge(DeviceIndex device, uint64_t bytes);
    void discharge(DeviceIndex device, uint64_t bytes);
    /* 0 = none. Throws: as before. */
    void set_limit(DeviceIndex device, uint64_t bytes);
    uint64_t limit(DeviceIndex device);
    /* pleat has given memory back: its limit may fall now if it could not before. */
    void renew(DeviceIndex device);

private:
    struct Charge {
        uint64_t bytes = 0;   /* of other allocators */
        uint64_t limit = 0;   /* for both together; 0 = none */
        uint64_t written = 0; /* pleat's limit: `limit` less `bytes` */
    };

    Charge &look(DeviceIndex device);
    static uint64_t left_of(const Charge &charge);
    static bool write(DeviceIndex device, Charge &charge, const Charge &wanted);

    std::mutex mutex_; /* guards the rest; held while pleat gives memory back for a lower limit */
    std::map<DeviceIndex, Charge> charges_;
};

} // namespace pleat_torch
