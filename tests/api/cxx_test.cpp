/* cxx_test.cpp - pleat_cxx.hpp on the simulator: owners give back, scopes end,
 * resources serve containers. */
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

/* ---- as people guess it ---- */

/* Functions of pleat.h take an owner as it is. */
void an_instance_converts()
{
    pleat_cxx::instance gpu(std::string("driver:sim,sim:[capacity:256M]"));
    pleat_devptr ptr = 0;
    pleat_cxx::check(pleat_block_alloc(gpu, 0, MIB, nullptr, &ptr));
    EXPECT(gpu.stats().allocation[PLEAT_SIZES_ALL].current == 1 && gpu.check() == 0);
    EXPECT(gpu.info().total_bytes == 256 * MIB && gpu.info(0).driver == std::string("sim"));
    pleat_cxx::check(pleat_block_free(gpu, 0, ptr, nullptr));
    gpu.set_limit(0, 100 * MIB);
    EXPECT(gpu.trim() > 0 && gpu.stats().resident_bytes == 0);
    EXPECT(gpu.compact().moved_bytes == 0 && gpu.info().limit_bytes == 100 * MIB);
    pleat of_another{};
    EXPECT(pleat_create("driver:sim,sim:[capacity:256M]", &of_another) == PLEAT_OK);
    {
        pleat_cxx::block block(of_another, 0, MIB); /* owners take any `pleat` */
        EXPECT(block.device() == 0 && block.stream() == nullptr);
    }
    EXPECT(pleat_destroy(of_another, 0) == PLEAT_OK);
    pleat_cxx::instance moved("driver:sim,sim:[capacity:256M]");
    moved = std::move(gpu);
    EXPECT(moved.info().limit_bytes == 100 * MIB);
}

void owners_are_reset_released_and_swapped()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    pleat_cxx::block one(gpu, 0, MIB);
    pleat_cxx::block other(gpu, 0, 2 * MIB);
    EXPECT(one.data() == one.data<void>() &&
           reinterpret_cast<std::uintptr_t>(one.data<float>()) == one.get());
    std::swap(one, other);
    swap(one, other);
    one.swap(other);
    EXPECT(one.size() == 2 * MIB && other.size() == MIB);
    one = std::move(other); /* frees what it had */
    EXPECT(live_blocks(gpu) == 1 && one.size() == MIB && !other);
    pleat_devptr bare = one.release();
    EXPECT(!one && one.size() == 0 && live_blocks(gpu) == 1);
    one.reset(); /* of nothing */
    EXPECT(pleat_block_free(gpu, 0, bare, nullptr) == PLEAT_OK && live_blocks(gpu) == 0);
    one = pleat_cxx::block(gpu, 0, MIB);
    one.reset();
    EXPECT(!one && live_blocks(gpu) == 0);

    pleat_cxx::buffer none;
    pleat_cxx::buffer cache(gpu, 0, 64 * MIB);
    cache.resize(4 * MIB);
    cache.record_stream(nullptr);
    EXPECT(!none && cache && cache.capacity() == 64 * MIB && cache.size() == 4 * MIB);
    none = std::move(cache);
    EXPECT(none && !cache && none.info().bytes == 4 * MIB && none.data<char>() != nullptr);
    std::vector<pleat_cxx::buffer> many;
    many.push_back(std::move(none));
    many.emplace_back(gpu, 0, 32 * MIB);
    std::swap(many[0], many[1]);
    EXPECT(many[0].capacity() == 32 * MIB && live_blocks(gpu) == 1);
    many[1].reset();
    EXPECT(!many[1] && live_blocks(gpu) == 0);
}

void a_refused_reset_keeps_the_block()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    pleat_cxx::block block(gpu, 0, MIB);
    void *no_stream = reinterpret_cast<void *>(static_cast<std::uintptr_t>(12345));
    bool is_refused = false;
    try {
        block.reset(no_stream);
    } catch (const pleat_cxx::error &e) {
        is_refused = std::string(e.what()).find("cannot be used") != std::string::npos;
    }
    EXPECT(is_refused && block && live_blocks(gpu) == 1);
}

void tags_are_scopes_and_sleep()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    pleat_cxx::block weights;
    {
        pleat_cxx::tag_scope scope("weights");
        pleat_cxx::tag_scope inner(std::string("inner"));
        EXPECT(pleat_tag_current() == std::string("inner"));
        pleat_cxx::tag_scope none(nullptr);
        EXPECT(pleat_tag_current() == nullptr);
    }
    {
        pleat_cxx::tag_scope scope("weights");
        weights = pleat_cxx::block(gpu, 0, 10 * MIB);
    }
    EXPECT(pleat_tag_current() == nullptr);
    pleat_devptr at = weights.get();
    EXPECT(gpu.tag_info(0, "weights").resident_bytes == 10 * MIB);
    EXPECT(gpu.sleep("weights").bytes == 10 * MIB && gpu.tag_info(0, "weights").is_asleep);
    EXPECT(gpu.wake("weights").kept_bytes == 10 * MIB && weights.get() == at);
    EXPECT(gpu.sleep(0, "weights", PLEAT_SLEEP_DISCARD).kept_bytes == 0);
    EXPECT(gpu.wake(0, "weights").bytes == 10 * MIB);
    bool is_refused = false;
    try {
        pleat_cxx::tag_scope scope("");
    } catch (const pleat_cxx::error &e) {
        is_refused = e.status() == PLEAT_EINVAL;
    }
    EXPECT(is_refused && pleat_tag_current() == nullptr);
}

/* A pool has one user for the object and one for each scope that is open. */
void pools_and_captures_are_scopes()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    pleat_pool_id id;
    {
        pleat_cxx::pool pool(gpu);
        pleat_cxx::pool other(gpu, 0);
        id = pool.id();
        EXPECT(id.second != other.id().second && pool.users() == 1 && pool.size() == 0);
        {
            pleat_cxx::pool_scope all(pool);
            pleat_cxx::pool_scope of_a_stream(other, nullptr);
            EXPECT(pool.users() == 2 && other.users() == 2);
            pleat_cxx::block block(gpu, 0, 3 * MIB);
            EXPECT(pool.size() == 0 && other.size() >= 3 * MIB); /* the last begun is asked first */
        }
        EXPECT(pool.users() == 1 && other.users() == 1);
        other = std::move(pool);
        EXPECT(other.id().second == id.second && other.users() == 1);
        for (int result : { 0, 7 }) {
            int n_begun = 0;
            int n_ended = 0;
            bool is_refused = false;
            try {
                pleat_cxx::capture_scope capture(
                    other, nullptr, [&] { return n_begun++; },
                    [&] {
                        n_ended++;
                        return result;
                    });
                EXPECT(other.users() == 2);
                capture.end();
                capture.end();
            } catch (const pleat_cxx::error &e) {
                is_refused = std::string(e.what()).find("returned 7") != std::string::npos;
            }
            EXPECT(n_begun == 1 && n_ended == 1 && is_refused == (result == 7));
            EXPECT(other.users() == 1);
        }
        try {
            pleat_cxx::capture_scope capture(
                other, nullptr, [] { return 9; }, [] { return 0; });
            EXPECT(!"a capture that did not begin");
        } catch (const pleat_cxx::error &e) {
            EXPECT(e.status() == PLEAT_EDRIVER && other.users() == 1);
        }
    }
    unsigned users = 9;
    EXPECT(pleat_pool_users(gpu, 0, id, &users) == PLEAT_OK && users == 0);
}

void a_shortage_has_its_verdict()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:64M]");
    pleat_cxx::block most(gpu, 0, 60 * MIB);
    try {
        pleat_cxx::block more(gpu, 0, 10 * MIB);
        EXPECT(!"a block beyond the device");
    } catch (const pleat_cxx::out_of_memory &e) {
        EXPECT(e.verdict() == PLEAT_VERDICT_FULL);
    }
}

} /* namespace */

int main()
{
    an_instance_converts();
    owners_are_reset_released_and_swapped();
    a_refused_reset_keeps_the_block();
    tags_are_scopes_and_sleep();
    pools_and_captures_are_scopes();
    a_shortage_has_its_verdict();
    owners_give_back();
    blocks_are_aligned();
    buffers_grow();
    what_fails_throws();
    containers_lie_in_pinned_memory();
    device_memory_has_a_resource();
    std::puts("12 checks passed");
    return 0;
}
