/* clock.c - calibrates the tick. */
#include "bench/base/clock.h"

#include <stdbool.h>

#define CALIBRATION_NS UINT64_C(20000000)
#define N_PAIRS 4096
#define N_ROUNDS 16

static bench_clock measured;
static bool is_measured;

/* Mean cost of two reads in a row; the least of several rounds, since interruptions only add
 * time. */
static double pair_ticks(void)
{
    double least = 1e9;
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t sum = 0;
        for (int i = 0; i < N_PAIRS; i++) {
            uint64_t begin = bench_ticks();
            sum += bench_ticks() - begin;
        }
        double mean = (double)sum / N_PAIRS;
        least = mean < least ? mean : least;
    }
    return least;
}

static double read_ns(void)
{
    double least = 1e9;
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t begin = pl_clock_ns();
        uint64_t end = begin;
        for (int i = 0; i < N_PAIRS; i++) {
            end = pl_clock_ns();
        }
        double mean = (double)(end - begin) / N_PAIRS;
        least = mean < least ? mean : least;
    }
    return least;
}

const bench_clock *bench_clock_calibrated(void)
{
    if (!is_measured) {
        uint64_t begin_ticks = bench_ticks();
        uint64_t begin_ns = pl_clock_ns();
        uint64_t end_ns;
        measured.pair_ticks = pair_ticks();
        measured.read_ns = read_ns();
        do {
            end_ns = pl_clock_ns();
        } while (end_ns - begin_ns < CALIBRATION_NS);
        measured.ns_per_tick = (double)(end_ns - begin_ns) / (double)(bench_ticks() - begin_ticks);
        is_measured = true;
    }
    return &measured;
}
