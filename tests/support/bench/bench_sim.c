/* bench_sim.c - see bench_sim.h. */
#include "tests/support/bench/bench_sim.h"

#include <check.h>
#include <stdio.h>

#include "bench/command/parse_options.h"

void bench_sim_setup(bench_setup *out)
{
    bench_failure failure;
    bench_options options;
    bench_options_init(&options);
    options.target.has_driver = true;
    options.target.driver = PL_DRIVER_SIM;
    ck_assert_msg(bench_setup_init(out, &options.target, &failure), "%s", failure.text);
}

void bench_sim_write_trace(const char *path, unsigned n, unsigned bytes)
{
    FILE *file = fopen(path, "w");
    ck_assert_msg(file != NULL, "%s", path);
    for (unsigned i = 0; i < n; i++) {
        fprintf(file, "a %u %u 0\n", i, bytes + 4096 * i);
        if (i % 3 == 2) {
            fprintf(file, "f %u\n", i - 1);
        }
    }
    ck_assert_int_eq(fclose(file), 0);
}
