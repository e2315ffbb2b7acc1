/* out.h - that a person is told when standard output did not take what was written to it. */
#ifndef PLEAT_BENCH_OUT_H
#define PLEAT_BENCH_OUT_H

/* Call once, before anything is written. From then on the process ends with status 2 and one line
 * on stderr if its output could not be written: when it exits (a full disk, /dev/full), or at once
 * where the reader of a pipe has gone. Children that end by _exit say nothing. */
void bench_out_guard(void);

#endif
