/* verdict_recorded.h - the lines of a verdict about its recording. */
#ifndef PLEAT_BENCH_VERDICT_RECORDED_H
#define PLEAT_BENCH_VERDICT_RECORDED_H

#include "bench/ab/verdict.h"
#include "bench/base/line.h"

/* Say what a recording leaves out of its run, and how the whole is recorded. A whole recording gets
 * an empty text. The first form is for commands that reach no verdict. */
void bench_verdict_recorded(const bench_told *told, char out[BENCH_VERDICT_BYTES]);
void bench_verdict_write_recorded(const bench_told *told, bench_line *line);

/* Which device of the snapshot is judged, if others have memory, too. */
void bench_verdict_write_device(const bench_verdict_input *input, bench_line *line);

/* Lines of a recording that is not whole (R8). fails_on: the devices that are too small.
 * what_tells: the command that records more, or that runs the program. */
void bench_verdict_write_fails_on(const bench_verdict_input *input, bench_line *line);
void bench_verdict_write_record(const bench_verdict_input *input, const bench_verdict *verdict,
                                bench_line *line);
void bench_verdict_write_what_tells(const bench_verdict_input *input, const bench_verdict *verdict,
                                    bench_line *line);
/* To record more: the script's calls at its start and at its end. */
void bench_verdict_write_calls(const bench_told *told, bench_line *start, bench_line *end);

#endif
