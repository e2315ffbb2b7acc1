/* torch_shim.cpp - libpleat_torch.so: PyTorch's hooks that cannot be written in C.
 *
 * The exception torch.OutOfMemoryError is built without PyTorch's headers, so that one binary
 * serves every version. The constructor in libc10 makes the base class at the address of a fresh
 * exception object. The vtable of OutOfMemoryError completes the object: the class has no fields of
 * its own, and its destructor is in the vtable. Symbols are looked up when needed, among loaded
 * libraries; if a symbol is missing, a std::runtime_error is thrown. Source: c10/util/Exception.h;
 * Itanium C++ ABI 2.5.2 (vtables), 2.4 (exceptions). */
#include "pleat_torch.hpp"

#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include <dlfcn.h>

/* From the C++ ABI; <cxxabi.h> declares them with types of each library's own. */
extern "C" void *__cxa_allocate_exception(std::size_t bytes) noexcept;
extern "C" void __cxa_free_exception(void *object) noexcept;
extern "C" [[noreturn]] void __cxa_throw(void *object, void *type, void (*destroy)(void *));

/* From libstdc++: constructor and destructor of std::string as before C++11. */
extern "C" void _ZNSsC1EPKcRKSaIcE(void *self, const char *text, const std::allocator<char> &from);
extern "C" void _ZNSsD1Ev(void *self);

namespace
{

/* ---- c10::OutOfMemoryError ---- */

/* c10::SourceLocation, as its constructor's callers pass it. */
struct source_location {
    const char *function;
    const char *file;
    std::uint32_t line;
};

/* std::string as PyTorch's wheels up to 2.6 were built with it. */
struct old_string {
    explicit old_string(const char *text)
    {
        _ZNSsC1EPKcRKSaIcE(this, text, std::allocator<char>());
    }
    old_string(const old_string &) = delete;
    old_string &operator=(const old_string &) = delete;
    ~old_string()
    {
        _ZNSsD1Ev(this);
    }
    char *characters;
};

using construct_fn = void (*)(void *self, source_location where, std::string text);
using construct_old_fn = void (*)(void *self, source_location where, old_string *text);
using destroy_fn = void (*)(void *self);

constexpr char constructor_name[] = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_"
                                    "stringIcSt11char_traitsIcESaIcEEE";
constexpr char old_constructor_name[] = "_ZN3c105ErrorC1ENS_14SourceLocationESs";
constexpr char vtable_name[] = "_ZTVN3c1016OutOfMemoryErrorE";
constexpr char type_name[] = "N3c1016OutOfMemoryErrorE";
/* c10::Error has some 200 bytes; the excess costs nothing. */
constexpr std::size_t exception_bytes = 4096;

struct library_closer {
    void operator()(void *library) const
    {
        dlclose(library);
    }
};
using library_ptr = std::unique_ptr<void, library_closer>;

/* Finds a symbol in the loaded library that defines it. */
void *find_symbol(const char *name)
{
    static const char *const libraries[] = { "libc10.so", "libtorch_python.so", "libc10_cuda.so",
                                             "libtorch_cpu.so", "libtorch_cuda.so" };
    for (const char *path : libraries) {
        library_ptr library(dlopen(path, RTLD_LAZY | RTLD_NOLOAD));
        void *address = library ? dlsym(library.get(), name) : nullptr;
        if (address != nullptr) {
            return address;
        }
    }
    return dlsym(RTLD_DEFAULT, name);
}

/* By the ABI, objects with destructors are passed by address even where C++ passes them by
 * value. */
void construct_error(void *constructor, bool is_old, void *object, const std::string &text)
{
    const source_location where = { __func__, __FILE__, __LINE__ };
    if (is_old) {
        old_string old(text.c_str());
        reinterpret_cast<construct_old_fn>(constructor)(object, where, &old);
    } else {
        reinterpret_cast<construct_fn>(constructor)(object, where, text);
    }
}

/* Returns only if PyTorch is missing or not as expected. */
void throw_out_of_memory(const std::string &text)
{
    void *constructor = find_symbol(constructor_name);
    const bool is_old = constructor == nullptr;
    if (is_old) {
        constructor = find_symbol(old_constructor_name);
    }
    void **vtable = static_cast<void **>(find_symbol(vtable_name));
    if (constructor == nullptr || vtable == nullptr) {
        return;
    }
    auto *type = static_cast<std::type_info *>(vtable[1]); /* follows the offset to the top */
    if (std::string(type->name()) != type_name) {
        return;
    }
    void *object = __cxa_allocate_exception(exception_bytes);
    try {
        construct_error(constructor, is_old, object, text);
    } catch (...) {
        __cxa_free_exception(object);
        throw;
    }
    void **methods = vtable + 2; /* the first is the destructor */
    *static_cast<void ***>(object) = methods;
    __cxa_throw(object, type, reinterpret_cast<destroy_fn>(methods[0]));
}

/* ---- the text ---- */

/* Words a size as PyTorch does. */
std::string size_text(std::uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB" };
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    char text[64];
    if (bytes <= 1024) {
        return std::to_string(bytes) + " bytes";
    }
    if (bytes >= std::uint64_t{ 1 } << 60) {
        return "more than 1EB memory";
    }
    while (unit < 2 && value > 1024) {
        value /= 1024;
        unit++;
    }
    std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
    return text;
}

std::string capacity_text(int device)
{
    pleat instance;
    std::uint64_t free_bytes;
    std::uint64_t total_bytes;
    if (pleat_default(&instance) != PLEAT_OK ||
        pleat_device_memory_info(instance, device, &free_bytes, &total_bytes) != PLEAT_OK) {
        return ". ";
    }
    return " has a total capacity of " + size_text(total_bytes) + " of which " +
           size_text(free_bytes) + " is free. ";
}

bool is_out_of_memory(pleat_status status)
{
    return status == PLEAT_ENOMEM_DEVICE || status == PLEAT_EPENDING ||
           status == PLEAT_ENOSPACE_VA || status == PLEAT_ESIZE;
}

[[noreturn]] void throw_failure(std::size_t bytes, int device)
{
    const pleat_error *error = pleat_last_error();
    const pleat_status status = error->status;
    const std::string text = error->text; /* a copy, since what follows may fail, too */
    if (!is_out_of_memory(status)) {
        throw std::runtime_error("pleat: " + text);
    }
    const std::string whole = "CUDA out of memory. Tried to allocate " + size_text(bytes) +
                              ". GPU " + std::to_string(device) + capacity_text(device) +
                              "pleat: " + text;
    throw_out_of_memory(whole);
    throw std::runtime_error(whole);
}

/* ---- routes ---- */

using filter_fn = std::function<bool(CUstream_st *)>;

extern "C" bool call_filter(void *stream, void *context)
{
    try {
        return (*static_cast<filter_fn *>(context))(static_cast<CUstream_st *>(stream));
    } catch (...) {
        return false; /* an exception cannot pass through C */
    }
}

extern "C" void forget_filter(void *context)
{
    delete static_cast<filter_fn *>(context);
}

} // namespace

void *pleat_torch_malloc_or_throw(std::size_t bytes, int device, void *stream)
{
    void *ptr = pleat_torch_malloc(bytes, device, stream);
    if (ptr == nullptr && bytes != 0) {
        throw_failure(bytes, device);
    }
    return ptr;
}

void pleat_torch_begin_pool(int device, std::pair<std::uint64_t, std::uint64_t> id,
                            std::function<bool(CUstream_st *)> filter)
{
    pleat instance;
    pleat_status status = pleat_default(&instance);
    if (status == PLEAT_OK) {
        filter_fn *kept = filter ? new filter_fn(std::move(filter)) : nullptr;
        status = pleat_pool_begin(instance, device, { id.first, id.second },
                                  kept != nullptr ? call_filter : nullptr,
                                  kept != nullptr ? forget_filter : nullptr, kept);
    }
    if (status != PLEAT_OK) {
        throw std::runtime_error(std::string("pleat: ") + pleat_last_error()->text);
    }
}
