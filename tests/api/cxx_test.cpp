/* cxx_test.cpp - pleat_cxx.hpp on the simulator: owners give back, scopes end,
 * resources serve containers. */
#include "pleat_cxx.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
}

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
    } catch (const pleat_cxx::error &e) { /* no shortage: nobody should free something */
        is_refused = e.status() == PLEAT_EINVAL &&
                     std::string(e.what()).find("3000 is no power of two") != std::string::npos;
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

/* A member for each function about a device or a tag, by its name; the device is 0 without one. */
void members_are_called_as_functions_are()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M],limit:200M");
    EXPECT(gpu && gpu.conf().find("limit:209715200") != std::string::npos &&
           gpu.conf().back() != '\0');
    pleat_cxx::block block = gpu.allocate(10 * MIB);
    EXPECT(block.device() == 0 && block.stream() == nullptr);
    EXPECT(block.info().bytes == 10 * MIB && block.info().base == block.get());
    EXPECT(gpu.memory_info().total_bytes == 256 * MIB && gpu.memory_info(0).free_bytes < 250 * MIB);
    block.reset();
    EXPECT(gpu.largest_free() >= 10 * MIB && gpu.largest_free(0) == gpu.largest_free());
    EXPECT(gpu.stats().allocation[PLEAT_SIZES_ALL].peak == 1);
    gpu.reset_peaks();
    EXPECT(gpu.stats().allocation[PLEAT_SIZES_ALL].peak == 0);
    gpu.set_limit(64 * MIB);
    EXPECT(gpu.info().limit_bytes == 64 * MIB);
    const std::string tag = "cache";
    gpu.set_tag_limit(tag, 4 * MIB);
    {
        pleat_cxx::tag_scope scope(tag);
        bool is_refused = false;
        try {
            (void)gpu.allocate(5 * MIB);
        } catch (const pleat_cxx::out_of_memory &) {
            is_refused = true;
        }
        block = gpu.allocate(3 * MIB);
        EXPECT(is_refused && gpu.tag_info(tag).requested_bytes.current == 3 * MIB);
    }
    EXPECT(gpu.sleep(tag, PLEAT_SLEEP_FILE, "/tmp").kept_bytes >= 3 * MIB);
    EXPECT(gpu.wake(tag).kept_bytes >= 3 * MIB);
    gpu.record_history(100);
    gpu.dump_snapshot("/dev/null");
    gpu.retire(nullptr);
    bool is_refused = false;
    try {
        gpu.reset(); /* a block lives */
    } catch (const pleat_cxx::error &e) {
        is_refused = e.status() == PLEAT_EBUSY;
    }
    EXPECT(is_refused && gpu);
    block.reset();
    gpu.reset();
    EXPECT(!gpu);
    gpu.reset(); /* of nothing */
}

void callbacks_are_any_function()
{
    pleat_cxx::instance of("driver:sim,sim:[capacity:256M],reserve_mb:0");
    std::vector<pleat_cxx::block> cache;
    unsigned n_told = 0;
    of.set_pressure_callback([](int, std::size_t) -> bool { throw 1; });
    of.set_oom_callback([&](int device, std::size_t bytes, const char *text) {
        n_told += device == 0 && bytes == 200 * MIB && std::strlen(text) > 20;
        throw 1; /* ends here */
    });
    cache.push_back(of.allocate(100 * MIB));
    cache.push_back(of.allocate(100 * MIB));
    bool is_refused = false;
    try {
        (void)of.allocate(200 * MIB);
    } catch (const pleat_cxx::out_of_memory &) {
        is_refused = true;
    }
    EXPECT(is_refused && n_told == 1);
    of.set_pressure_callback([&](int device, std::size_t bytes) {
        EXPECT(device == 0 && bytes == 200 * MIB);
        bool frees = !cache.empty();
        if (frees) {
            cache.pop_back();
        }
        return frees;
    });
    pleat_cxx::instance gpu(std::move(of)); /* callbacks move along */
    EXPECT(gpu.allocate(200 * MIB).size() == 200 * MIB && cache.empty());
    pleat_cxx::instance other("driver:sim,sim:[capacity:256M]");
    other = std::move(gpu);
    cache.push_back(other.allocate(100 * MIB));
    EXPECT(other.allocate(200 * MIB).size() == 200 * MIB && cache.empty() && n_told == 1);
}

void *new_stream()
{
    void *context = nullptr;
    void *stream = nullptr;
    EXPECT(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
    EXPECT(cuStreamCreate(&stream, 1) == 0);
    return stream;
}

/* With its context, which would keep the simulator from another configuration. */
void end_stream(void *stream)
{
    EXPECT(cuStreamDestroy_v2(stream) == 0);
    EXPECT(cuDevicePrimaryCtxRelease_v2(0) == 0);
}

/* A destructor cannot tell, so it frees on another stream. */
void owners_outlive_their_stream()
{
    pleat_cxx::instance gpu("driver:sim,sim:[capacity:256M]");
    pleat_cxx::block first = gpu.allocate(MIB); /* opens the device */
    for (bool is_retired : { false, true }) {
        void *stream = new_stream();
        {
            pleat_cxx::block block(gpu, 0, 30 * MIB, stream);
            pleat_cxx::buffer cache(gpu, 0, 64 * MIB, 0, stream);
            cache.resize(30 * MIB);
            pleat_cxx::device_resource resource(gpu, 0, stream);
            void *ptr = resource.allocate(MIB);
            if (is_retired) {
                gpu.retire(stream);
            }
            end_stream(stream);
            resource.deallocate(ptr, MIB);
        }
        EXPECT(live_blocks(gpu) == 1);
    }
}

/* Members of a class may be declared before what they are made from is there. */
struct engine {
    pleat_cxx::instance gpu{ "driver:sim,sim:[capacity:256M]" };
    pleat_cxx::pool graphs;
    pleat_cxx::buffer cache;
    pleat_cxx::block weights;
};

void members_of_a_class_are_filled_later()
{
    engine e;
    EXPECT(e.gpu && !e.graphs && !e.cache && !e.weights);
    e.graphs = pleat_cxx::pool(e.gpu);
    e.cache = pleat_cxx::buffer(e.gpu, 0, 64 * MIB);
    e.weights = e.gpu.allocate(MIB);
    EXPECT(e.graphs && e.graphs.users() == 1);
    pleat_pool_id id = e.graphs.id();
    e.graphs.reset();
    e.graphs.reset(); /* of nothing */
    unsigned users = 9;
    EXPECT(pleat_pool_users(e.gpu, 0, id, &users) == PLEAT_OK && users == 0 && !e.graphs);
    e.cache.reset(nullptr);
    EXPECT(!e.cache && live_blocks(e.gpu) == 1);
    pleat_cxx::device_resource resource(e.gpu);
    EXPECT(resource == pleat_cxx::device_resource(e.gpu, 0, nullptr));
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
    gpu.record_history(100);
    std::uint64_t mark = gpu.mark();
    EXPECT(gpu.leaks(mark).empty());
    pleat_cxx::block kept(gpu, 0, 3 * MIB);
    EXPECT(gpu.leaks(mark).size() == 1 && gpu.leaks(0, mark)[0].find("1 block") == 0);
    kept.reset();
    EXPECT(gpu.leaks(mark).empty());
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
    members_are_called_as_functions_are();
    members_of_a_class_are_filled_later();
    callbacks_are_any_function();
    owners_outlive_their_stream();
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
