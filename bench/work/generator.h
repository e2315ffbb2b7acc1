/* generator.h - runs generated during the replay: `name:key=value,key=value`.
 *
 * A generator is a constant object with a table of its parameters. Equal values give equal events
 * on every machine. Published patterns are generators too. */
#ifndef PLEAT_BENCH_GENERATOR_H
#define PLEAT_BENCH_GENERATOR_H

#include "bench/base/failure.h"
#include "bench/work/tape.h"

/* A number, or one of `words` (the value is then an index). Sizes may be written 4K, 2MiB... */
typedef struct bench_param {
    const char *name;
    const char *doc; /* with the unit */
    double standard; /* the default of a spec */
    double least;
    double most;
    const char *const *words; /* NULL-terminated; NULL = a number */
    bool is_whole;            /* no fraction */
} bench_param;

enum { BENCH_MOST_PARAMS = 32 };

/* `iterations` and `seed` are parameters of every generator. */
extern const bench_param bench_common_params[]; /* two parameters; ends with a NULL name */
typedef struct bench_values {
    uint64_t iterations;
    uint64_t seed;
    double of[BENCH_MOST_PARAMS]; /* in the order of the generator's table */
} bench_values;

typedef struct bench_generator {
    const char *name;
    const char *doc;           /* one line of text */
    const bench_param *params; /* ends with a NULL name; NULL = none */
    uint64_t iterations;       /* the default of a spec */
    bool is_host;              /* the blocks are pinned memory of the host */
    /* NULL and a message when the values do not fit together, or out of host memory. */
    void *(*create)(const bench_values *values, bench_failure *failure);
    void (*destroy)(void *state);
    /* Write iteration `number` (0, 1, ... values->iterations - 1), without its mark. False when the
     * tape fails; `tape->problem` says why. Live blocks stay for later iterations. */
    bool (*write)(void *state, uint64_t number, bench_tape *tape);
} bench_generator;

/* Read `key=value,...` (may be empty). False and a message that names the key, the bad value and
 * the allowed values. */
bool bench_values_read(const bench_generator *generator, const char *text, bench_values *out,
                       bench_failure *failure);

#endif
