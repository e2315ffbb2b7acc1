/* scenario.h - the requests to the rows of `pleat bench pairs`.
 *
 *   random:N            N live blocks; a pair frees one at random and allocates another size
 *   hot                 8 live blocks; each pair gives back and takes the size that was freed last
 *   WORK                the events of a run in their order, each a call
 *   threads:T           T threads with 4,096 blocks in all, each thread on a stream of its own
 *   threads:T,shared    the same, all on one stream
 *   threads:T[,shared],hot  T threads, each as in `hot`
 *   streams:S           4,096 blocks, spread over S streams */
#ifndef PLEAT_BENCH_PAIRS_SCENARIO_H
#define PLEAT_BENCH_PAIRS_SCENARIO_H

#include "bench/base/failure.h"
#include "bench/base/random.h"
#include "bench/base/text.h"
#include "bench/measure/resident.h"
#include "bench/work/tape.h"

enum {
    BENCH_SCENARIO_MOST_BLOCKS = 1 << 20,
    BENCH_SCENARIO_MOST_THREADS = 64,
    BENCH_SCENARIO_MOST_STREAMS = 1024,
};

typedef enum bench_scenario_kind {
    BENCH_SCENARIO_RANDOM,
    BENCH_SCENARIO_HOT,
    BENCH_SCENARIO_WORK,
    BENCH_SCENARIO_THREADS,
    BENCH_SCENARIO_STREAMS,
} bench_scenario_kind;

typedef struct bench_scenario {
    char name[BENCH_NAME_BYTES]; /* as given by the user */
    bench_scenario_kind kind;
    bool is_hot; /* pairs give back and take one size */
    uint32_t n_blocks;
    uint32_t n_threads;
    uint32_t n_streams; /* that the blocks are spread over */
} bench_scenario;

/* The n-th scenario of the short selection or, `all`, of the long one, apart from works; NULL at
 * the end. The short selection has the work BENCH_SCENARIO_WORK_NAME; the long one has all bundled
 * works. */
const char *bench_scenario_standard(bool all, unsigned index);
#define BENCH_SCENARIO_WORK_NAME "gpt2l_amp_var"

/* False and a message that names the bad part. Any other text names a work; opening the work shows
 * whether it exists. */
bool bench_scenario_parse(const char *text, bench_scenario *out, bench_failure *failure);

/* A scenario's requests, equal for all rows. */
typedef struct bench_course {
    const bench_scenario *scenario;
    char name[BENCH_NAME_BYTES]; /* the scenario's, or the work's own */
    uint32_t n_slots;            /* places for live blocks */
    uint32_t n_streams;
    uint64_t *first_bytes; /* by slot: size of the first block; NULL = none, a work */
    bench_pair *pairs;     /* of a round: n_pairs per thread, ordered by thread */
    unsigned n_pairs;
    bench_event *events; /* of a work, without marks; NULL = pairs */
    size_t n_events;
    bench_random random;
} bench_course;

/* False and a message: the work cannot be opened, or there is no host memory. */
bool bench_course_open(const bench_scenario *scenario, unsigned n_pairs, uint64_t seed,
                       bench_course *out, bench_failure *failure);
void bench_course_close(bench_course *course); /* a zeroed one is fine */
/* Draws the pairs of another round. */
void bench_course_draw(bench_course *course);
/* Timed calls of one thread's round: pairs, or events of a work. */
size_t bench_course_units(const bench_course *course);

#endif
