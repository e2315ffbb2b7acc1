/* verdict_words.h - the words for settings and devices in a verdict's lines. */
#ifndef PLEAT_BENCH_VERDICT_WORDS_H
#define PLEAT_BENCH_VERDICT_WORDS_H

#include "bench/ab/verdict.h"
#include "bench/base/line.h"

/* "PyTorch's default (torch-native)" */
const char *bench_verdict_words_of(const char *allocator);

/* The candidates of R3, the simplest first, whether measured or not (short:compact: measured).
 * Returns their number. */
unsigned bench_verdict_candidates(const bench_verdict_input *in, const char *in_force,
                                  const char *out[BENCH_VERDICT_CANDIDATES]);
/* On any device. */
bool bench_verdict_is_measured(const bench_verdict_input *in, const char *allocator);
bool bench_verdict_has_all(const bench_verdict_input *in, const char *in_force); /* measured */
/* The candidates of which nothing is known: "; pleat was not measured", or nothing. */
void bench_verdict_put_unmeasured(const bench_verdict_input *in, const char *in_force,
                                  bench_line *l);

/* The settings with that outcome on a device. */
unsigned bench_verdict_count(const bench_verdict_input *in, unsigned device, bench_outcome outcome);
void bench_verdict_put_names(const bench_verdict_input *in, unsigned device, bench_outcome outcome,
                             bench_line *l);

/* Devices with equal outcomes stand together: [first, the result). */
unsigned bench_verdict_end_of(const bench_verdict_input *in, unsigned first);
/* "40, 48 GB", or "1.02x, 1.05x" */
void bench_verdict_put_devices(const bench_verdict_input *in, unsigned first, unsigned end,
                               bench_line *l);

/* The least device of a setting, or BENCH_VERDICT_NOWHERE. */
unsigned bench_verdict_least_of(const bench_verdict_input *in, const bench_verdict *v,
                                const char *allocator);

/* A script's run on a device: "pleat-runtime --card 24GB ..." */
void bench_verdict_put_run(const bench_verdict_device *device, bench_line *l);

#endif
