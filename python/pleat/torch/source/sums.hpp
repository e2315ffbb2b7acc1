/* sums.hpp - statistics of a device's memory outside pleat, kept as pleat keeps its own. */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pleat_torch.h"

namespace pleat_torch
{

/* By PyTorch's pools: all, small, large. */
using PoolSums = std::array<pleat_stat, PLEAT_N_SIZES>;
using Group = pleat_stat[PLEAT_N_SIZES];

/* The groups and counters common to both kinds of memory. */
constexpr std::array<Group pleat_stats::*, 9> summed_groups = {
    &pleat_stats::allocation,      &pleat_stats::segment,
    &pleat_stats::active,          &pleat_stats::inactive_split,
    &pleat_stats::allocated_bytes, &pleat_stats::reserved_bytes,
    &pleat_stats::active_bytes,    &pleat_stats::inactive_split_bytes,
    &pleat_stats::requested_bytes,
};

constexpr std::array<uint64_t pleat_stats::*, 4> summed_counters = {
    &pleat_stats::num_alloc_retries,
    &pleat_stats::num_ooms,
    &pleat_stats::num_device_alloc,
    &pleat_stats::num_device_free,
};

template <typename Stats> /* a group, or PoolSums */
void count_in(Stats &stats, bool is_small, uint64_t amount)
{
    for (const size_t i : { size_t{ PLEAT_SIZES_ALL },
                            size_t{ is_small ? PLEAT_SIZES_SMALL : PLEAT_SIZES_LARGE } }) {
        stats[i].current += amount;
        stats[i].allocated += amount;
        stats[i].peak = stats[i].current > stats[i].peak ? stats[i].current : stats[i].peak;
    }
}

template <typename Stats> void count_out(Stats &stats, bool is_small, uint64_t amount)
{
    for (const size_t i : { size_t{ PLEAT_SIZES_ALL },
                            size_t{ is_small ? PLEAT_SIZES_SMALL : PLEAT_SIZES_LARGE } }) {
        stats[i].current -= amount;
        stats[i].freed += amount;
    }
}

/* The peak of a sum is at most the sum of the peaks. */
inline void add_sums(pleat_stats &to, const pleat_stats &from)
{
    for (const auto group : summed_groups) {
        for (size_t i = 0; i < PLEAT_N_SIZES; i++) {
            pleat_stat &stat = (to.*group)[i];
            const pleat_stat &more = (from.*group)[i];
            stat.current += more.current;
            stat.peak += more.peak;
            stat.allocated += more.allocated;
            stat.freed += more.freed;
        }
    }
    for (const auto counter : summed_counters) {
        to.*counter += from.*counter;
    }
}

inline void reset_peaks(pleat_stats &stats)
{
    for (const auto group : summed_groups) {
        for (pleat_stat &stat : stats.*group) {
            stat.peak = stat.current;
        }
    }
}

inline void reset_totals(pleat_stats &stats)
{
    for (const auto group : summed_groups) {
        for (pleat_stat &stat : stats.*group) {
            stat.allocated = 0;
            stat.freed = 0;
        }
    }
    for (const auto counter : summed_counters) {
        stats.*counter = 0;
    }
}

} // namespace pleat_torch
