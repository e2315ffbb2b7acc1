/* options.h - command line options that `pleat replay`, `pleat fit` and `pleat ab` share. */
#ifndef PLEAT_BENCH_OPTIONS_H
#define PLEAT_BENCH_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "bench/base/size.h"
#include "bench/run/replay.h"

enum {
    BENCH_EXIT_OK = 0,
    BENCH_EXIT_FAILED = 1, /* an allocation failed, a hazard was found, or the device is unfit */
    BENCH_EXIT_USAGE = 2,  /* bad input or usage */
    BENCH_EXIT_INTERRUPTED = 130
};

enum { BENCH_MAX_ALLOCATORS = 16, BENCH_MAX_DEPTH = 1 << 20 };

typedef struct bench_options {
    const char *allocators[BENCH_MAX_ALLOCATORS]; /* the registry's own strings */
    unsigned n_allocators;
    bench_target target;
    bench_memory memory;
    unsigned loops;
    bench_compact compact; /* replay and fit */
    bool json;
    char **works;
    unsigned n_works;
    bool has_no_work; /* set by another option: then no work may be given */
} bench_options;

void bench_options_init(bench_options *options);

/* A child parser whose input is a bench_options. Its options are allocator, driver, depth, loops,
 * conf, sim, json and WORK. */
extern const struct argp bench_common_argp;
/* A child parser for commands without WORK: driver, conf, sim, json. */
extern const struct argp bench_driver_argp;

/* Runs argp_parse. If parsing cannot work, prints a message and returns false. The command then
 * ends with BENCH_EXIT_USAGE. Bad usage ends the process itself. */
bool bench_parse(const struct argp *argp, int argc, char **argv, void *input);

/* For parsers: a decimal number in [least, most], or argp_error naming `option`. */
unsigned bench_number(struct argp_state *state, const char *option, const char *text,
                      unsigned least, unsigned most);
/* For parsers: --allocator's list into `options`, or argp_error. */
void bench_parse_allocators(struct argp_state *state, const char *list, bench_options *options);

#endif
