/* options.c - see options.h. */
#include "bench/run/options.h"

void bench_options_init(bench_options *options)
{
    *options = (bench_options){
        .allocators = { "pleat" },
        .n_allocators = 1,
        .target = { .driver = PL_DRIVER_AUTO, .depth = 256, .conf = "", .sim = "" },
        .memory = { .kind = BENCH_MEMORY_UNLIMITED },
        .loops = 1,
    };
}
