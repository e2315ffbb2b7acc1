/* shim_test.cpp - the hooks of libpleat_torch.so without PyTorch: exceptions, routes, and the
 * registers of a std::pair. Run with PLEAT_CONF=driver:sim,... as set below. The argument is the
 * fake libc10.so. Loading it stands for loading PyTorch's library. */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "adapters/pleat_torch.hpp"

/* The names under which exceptions are caught. Only the fake defines them. */
namespace c10
{
class Error : public std::exception
{
};
class OutOfMemoryError : public Error
{
};
} // namespace c10

namespace
{

constexpr std::size_t mib = std::size_t{ 1 } << 20;
using pool_id = std::pair<std::uint64_t, std::uint64_t>;

void require_at(bool condition, const char *text, int line)
{
    if (!condition) {
        std::fprintf(stderr, "shim_test.cpp:%d: not true: %s (%s)\n", line, text,
                     pleat_last_error()->text);
        std::exit(EXIT_FAILURE);
    }
}
#define require(condition) require_at((condition), #condition, __LINE__)

bool has(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

/* ---- exceptions ---- */

/* The text thrown by a malloc that must fail, as an `Exception`. */
template <typename Exception> std::string text_of_failure(std::size_t bytes, int device)
{
    try {
        pleat_torch_malloc_or_throw(bytes, device, nullptr);
    } catch (const Exception &error) {
        return error.what();
    }
    return "";
}

void a_block_is_returned_and_zero_bytes_are_null()
{
    void *ptr = pleat_torch_malloc_or_throw(3 * mib, 0, nullptr);
    require(ptr != nullptr);
    pleat_torch_free(ptr, 3 * mib, 0, nullptr);
    require(pleat_torch_malloc_or_throw(0, 0, nullptr) == nullptr);
}

void without_pytorch_a_shortage_is_a_runtime_error_in_pytorchs_words()
{
    const std::string text = text_of_failure<std::runtime_error>(65 * mib, 0);
    require(has(text, "CUDA out of memory. Tried to allocate 65.00 MiB. GPU 0 has a total capacity "
                      "of 64.00 MiB of which "));
    require(has(text, " is free. pleat: out of device memory on device 0: 65.00 MiB"));
    require(has(text_of_failure<std::runtime_error>(std::size_t{ 1 } << 40, 0), "1024.00 GiB. "));
}

void what_is_no_shortage_is_a_runtime_error()
{
    require(text_of_failure<std::runtime_error>(mib, 7).rfind("pleat: there is no device 7", 0) ==
            0);
    require(has(text_of_failure<std::runtime_error>(SIZE_MAX, 0), "2^60"));
}

void with_pytorch_a_shortage_is_its_exception_and_is_destroyed_once(const char *fake)
{
    void *library = dlopen(fake, RTLD_NOW | RTLD_LOCAL);
    require(library != nullptr);
    auto *n_errors = static_cast<int *>(dlsym(library, "fake_c10_n_errors"));
    auto *line = static_cast<std::uint32_t *>(dlsym(library, "fake_c10_last_line"));
    const std::string text = text_of_failure<c10::OutOfMemoryError>(65 * mib, 0);
    require(has(text, "CUDA out of memory. Tried to allocate 65.00 MiB."));
    require(*n_errors == 0);
    require(*line != 0);
    require(has(text_of_failure<c10::Error>(65 * mib, 0), "65.00 MiB"));
    require(has(text_of_failure<std::exception>(65 * mib, 0), "65.00 MiB"));
    try {
        pleat_torch_malloc_or_throw(65 * mib, 0, nullptr);
    } catch (...) {
        require(*n_errors == 1);
    }
    require(*n_errors == 0);
    require(has(text_of_failure<std::runtime_error>(mib, 7), "no device 7"));
}

/* ---- pools ---- */

/* A filter that counts calls and copies. */
struct filter {
    std::shared_ptr<int> n_calls = std::make_shared<int>(0);
    CUstream_st *accepted = nullptr;
    bool throws = false;

    bool operator()(CUstream_st *stream) const
    {
        ++*n_calls;
        if (throws) {
            throw std::runtime_error("from the filter");
        }
        return stream == accepted;
    }
};

pleat default_instance()
{
    pleat instance;
    require(pleat_default(&instance) == PLEAT_OK);
    return instance;
}

/* Bytes resident in pools, of all there ever were. */
std::uint64_t private_bytes()
{
    std::uint64_t sum = 0;
    pleat_pool_id id;
    pleat_stat reserved[PLEAT_N_SIZES];
    for (unsigned i = 0; pleat_pool_stats(default_instance(), 0, i, &id, reserved) == PLEAT_OK;
         i++) {
        sum += reserved[PLEAT_SIZES_ALL].current;
    }
    return sum;
}

/* Called as by PyTorch: through a pointer to a function with the pair by value. */
using with_pair = void (*)(int, pool_id);

void end_pool(pool_id id)
{
    reinterpret_cast<with_pair>(reinterpret_cast<void (*)()>(pleat_torch_end_pool))(0, id);
}

void release_pool(pool_id id)
{
    reinterpret_cast<with_pair>(reinterpret_cast<void (*)()>(pleat_torch_release_pool))(0, id);
}

void allocate_and_free()
{
    void *ptr = pleat_torch_malloc(mib, 0, nullptr);
    require(ptr != nullptr);
    pleat_torch_free(ptr, mib, 0, nullptr);
}

void a_filter_routes_until_the_end_and_is_destroyed_exactly_once()
{
    filter f;
    const pool_id id{ 0x1111222233334444, 0x5555666677778888 };
    pleat_torch_begin_pool(0, id, f);
    require(f.n_calls.use_count() == 2);
    allocate_and_free();
    require(*f.n_calls == 1);
    require(private_bytes() > 0);
    end_pool(id);
    require(f.n_calls.use_count() == 1);
    allocate_and_free();
    require(*f.n_calls == 1);
    release_pool(id);
    require(private_bytes() == 0);
}

void the_pair_arrives_in_both_halves()
{
    pleat_pool_id found;
    pleat_stat reserved[PLEAT_N_SIZES];
    require(pleat_pool_stats(default_instance(), 0, 0, &found, reserved) == PLEAT_OK);
    require(found.first == 0x1111222233334444 && found.second == 0x5555666677778888);
    pleat_torch_begin_pool(0, { 1, 2 }, nullptr);
    require(pleat_pool_end(default_instance(), 0, { 2, 1 }) == PLEAT_EPOOL);
    end_pool({ 1, 2 });
    require(pleat_pool_end(default_instance(), 0, { 1, 2 }) == PLEAT_EPOOL);
    release_pool({ 1, 2 });
    require(pleat_pool_release(default_instance(), 0, { 1, 2 }) == PLEAT_EPOOL);
}

void an_empty_filter_takes_every_stream()
{
    pleat_torch_begin_pool(0, { 0, 5 }, std::function<bool(CUstream_st *)>());
    allocate_and_free();
    require(private_bytes() > 0);
    end_pool({ 0, 5 });
    release_pool({ 0, 5 });
}

void a_filter_that_throws_takes_none()
{
    filter f;
    f.throws = true;
    pleat_torch_begin_pool(0, { 0, 6 }, f);
    allocate_and_free();
    require(*f.n_calls == 1);
    require(private_bytes() == 0);
    end_pool({ 0, 6 });
    release_pool({ 0, 6 });
}

void a_pool_that_cannot_begin_throws_and_keeps_nothing()
{
    filter f;
    std::string text;
    try {
        pleat_torch_begin_pool(0, { 0, 0 }, f);
    } catch (const std::runtime_error &error) {
        text = error.what();
    }
    require(text.rfind("pleat: ", 0) == 0);
    require(f.n_calls.use_count() == 1);
}

} // namespace

int main(int argc, char **argv)
{
    require(argc == 2);
    setenv("PLEAT_CONF", "driver:sim,sim:[capacity:64M]", 1);
    a_block_is_returned_and_zero_bytes_are_null();
    without_pytorch_a_shortage_is_a_runtime_error_in_pytorchs_words();
    what_is_no_shortage_is_a_runtime_error();
    a_filter_routes_until_the_end_and_is_destroyed_exactly_once();
    the_pair_arrives_in_both_halves();
    an_empty_filter_takes_every_stream();
    a_filter_that_throws_takes_none();
    a_pool_that_cannot_begin_throws_and_keeps_nothing();
    with_pytorch_a_shortage_is_its_exception_and_is_destroyed_once(argv[1]);
    require(pleat_destroy(default_instance(), 0) == PLEAT_OK);
    std::puts("torch_shim_test: all true");
    return EXIT_SUCCESS;
}
