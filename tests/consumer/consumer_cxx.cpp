/* consumer_cxx.cpp - a program in C++: the header compiles, with the numbers of every version. */
#include <cstddef>
#include <cstdio>

#include "../support/api/api_abi.h"

#define VALUE(constant, number) static_assert((constant) == (number), #constant);
#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type);
#define AT(type, member, offset)                                                                   \
    static_assert(offsetof(type, member) == (offset), #type "." #member);
API_ABI_VALUES(VALUE)
API_ABI_PLACES(SIZE, AT)

int main()
{
    pleat instance;
    pleat_stats stats;
    if (pleat_create("driver:sim", &instance) != PLEAT_OK ||
        pleat_device_stats(instance, 0, &stats) != PLEAT_OK ||
        pleat_destroy(instance, 0) != PLEAT_OK) {
        std::fprintf(stderr, "%s\n", pleat_last_error()->text);
        return 1;
    }
    return stats.resident_bytes == 0 ? 0 : 1;
}
