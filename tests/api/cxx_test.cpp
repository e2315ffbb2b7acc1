/* cxx_test.cpp - pleat_cxx.hpp on the simulator: owners give back, resources serve containers. */
#include "pleat_cxx.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace
{

constexpr std::size_t MIB = std::size_t{ 1 } << 20;

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

std::uint64_t live_blocks(const pleat_cxx::instance &of)
{
    pleat_stats stats;
    EXPECT(pleat_device_stats(of.handle(), 0, &stats) == PLEAT_OK);
    return stats.allocation[PLEAT_SIZES_ALL].current;
}

void owners_give_back()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    {
        pleat_cxx::block none;
        pleat_cxx::block one(gpu, 0, 3 * MIB);
        pleat_cxx::block moved(std::move(one));
        EXPECT(!one && moved && moved.size() == 3 * MIB && live_blocks(gpu) == 1);
        none = std::move(moved);
        EXPECT(none && !moved && live_blocks(gpu) == 1);
        none.record_stream(nullptr);
        none = pleat_cxx::block(gpu, 0, 1000);
        EXPECT(live_blocks(gpu) == 1 && none.size() == 1000);
    }
    EXPECT(live_blocks(gpu) == 0);
    pleat handle = gpu.handle();
    pleat_cxx::instance other(std::move(gpu));
    EXPECT(other.handle().slot == handle.slot && gpu.handle().slot == 0);
    pleat_cxx::block left(other, 0, MIB); /* ends before its instance does */
}

void blocks_are_aligned()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:1G]");
    pleat_cxx::block before(gpu, 0, 512);
    for (std::size_t alignment = 1; alignment <= 64 * MIB; alignment *= 2) {
        pleat_cxx::block a(gpu, 0, 1000, nullptr, alignment);
        pleat_cxx::block b(gpu, 0, 3 * MIB + 512, nullptr, alignment);
        EXPECT(a.get() % alignment == 0 && b.get() % alignment == 0);
        pleat_block_info info;
        EXPECT(pleat_block_query(gpu.handle(), 0, b.get() + 3 * MIB + 511, &info) == PLEAT_OK);
        EXPECT(info.base <= b.get() && live_blocks(gpu) == 3);
    }
    EXPECT(live_blocks(gpu) == 1);
    bool is_refused = false;
    try {
        pleat_cxx::block odd(gpu, 0, 1000, nullptr, 3000);
    } catch (const std::bad_alloc &) {
        is_refused = true;
    }
    EXPECT(is_refused && live_blocks(gpu) == 1);
}

void buffers_grow()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    {
        pleat_cxx::buffer first(gpu, 0, 100 * MIB, 2 * MIB, nullptr, 64 * MIB);
        first.resize(10 * MIB);
        first.decommit(2 * MIB, 4 * MIB);
        first.commit(2 * MIB, 2 * MIB);
        pleat_cxx::buffer cache(std::move(first));
        EXPECT(cache.size() == 10 * MIB && first.get() == 0);
        bool is_refused = false;
        try {
            cache.resize(101 * MIB);
        } catch (const pleat_cxx::error &e) {
            is_refused = e.status() == PLEAT_EINVAL &&
                         std::string(e.what()).find("beyond the most") != std::string::npos;
        }
        EXPECT(is_refused);
    }
    EXPECT(live_blocks(gpu) == 0);
}

void what_fails_throws()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:64M]");
    bool is_refused = false;
    try {
        pleat_cxx::block huge(gpu, 0, 1000 * MIB);
    } catch (const pleat_cxx::out_of_memory &e) {
        is_refused = e.status() == PLEAT_ENOMEM_DEVICE && std::strlen(e.what()) > 20;
    }
    EXPECT(is_refused);
    is_refused = false;
    try {
        pleat_cxx::instance bad("no_such_key:1");
    } catch (const pleat_cxx::error &e) {
        is_refused = e.status() == PLEAT_ECONF;
    }
    EXPECT(is_refused);
    is_refused = false;
    try {
        pleat_cxx::device_resource resource(gpu, 0);
        volatile std::size_t most = SIZE_MAX - 100; /* else compilers see the excess */
        (void)resource.allocate(most, 4096);
    } catch (const std::bad_alloc &) {
        is_refused = true;
    }
    EXPECT(is_refused && live_blocks(gpu) == 0);
}

struct alignas(4096) page {
    char bytes[4096];
};

void containers_lie_in_pinned_memory()
{
    pleat_cxx::instance host("driver:sim,sim:[capacity:64M,backing:memory],memory:host");
    pleat_cxx::host_resource pinned(host, 0, PLEAT_HOST_UNUSED);
    pleat_cxx::host_resource same(host, 0, PLEAT_HOST_UNUSED);
    pleat_cxx::host_resource other(host, 0, nullptr);
    EXPECT(pinned == same && !(pinned == other) &&
           !pinned.is_equal(*std::pmr::new_delete_resource()));
    {
        std::pmr::vector<int> numbers(&pinned);
        for (int i = 0; i < 100000; i++) {
            numbers.push_back(i);
        }
        std::pmr::vector<page> pages(300, &pinned);
        EXPECT(reinterpret_cast<std::uintptr_t>(pages.data()) % 4096 == 0);
        pages.back().bytes[4095] = 7;
        EXPECT(numbers[99999] == 99999 && live_blocks(host) == 2);
        std::pmr::unsynchronized_pool_resource pool(&pinned);
        std::pmr::vector<std::pmr::string> words(&pool);
        words.emplace_back("a text that is longer than what fits into the string itself");
        EXPECT(words[0].size() > 40 && live_blocks(host) > 2);
    }
    EXPECT(live_blocks(host) == 0);
}

void device_memory_has_a_resource()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    pleat_cxx::device_resource resource(gpu, 0);
    void *plain = resource.allocate(1000, 8);
    void *aligned = resource.allocate(5 * MIB, 1 << 16);
    void *none = resource.allocate(0, 1);
    EXPECT(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16) == 0 && none != nullptr);
    EXPECT(live_blocks(gpu) == 3);
    resource.deallocate(plain, 1000, 8);
    resource.deallocate(aligned, 5 * MIB, 1 << 16);
    resource.deallocate(none, 0, 1);
    EXPECT(live_blocks(gpu) == 0);
    EXPECT(resource == pleat_cxx::device_resource(gpu, 0));
}

} /* namespace */

int main()
{
    owners_give_back();
    blocks_are_aligned();
    buffers_grow();
    what_fails_throws();
    containers_lie_in_pinned_memory();
    device_memory_has_a_resource();
    std::puts("6 checks passed");
    return 0;
}
