/* out.h - reports lost output: standard output did not take the written text. */
#ifndef PLEAT_BENCH_OUT_H
#define PLEAT_BENCH_OUT_H

/* Call once, before anything is written. From then on, if output is lost, the process ends with
 * status 2 and one line on stderr. This happens at the exit (a full disk, /dev/full), or at once
 * when the reader of a pipe has gone. Children that end by _exit print no such line. */
void bench_out_guard(void);

#endif
