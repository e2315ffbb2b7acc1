/* parse_options.h - command line options that several commands share, and the exit statuses. */
#ifndef PLEAT_BENCH_PARSE_OPTIONS_H
#define PLEAT_BENCH_PARSE_OPTIONS_H

#include <argp.h>

#include "bench/run/options.h"

enum {
    BENCH_EXIT_OK = 0,
    BENCH_EXIT_FAILED = 1, /* an allocation failed, a hazard was found, or the device is unfit */
    BENCH_EXIT_USAGE = 2,  /* bad input or usage */
    BENCH_EXIT_INTERRUPTED = 130
};

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
