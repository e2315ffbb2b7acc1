/* trace.h - a recorded run: every allocation and free, in order.
 *
 * Text, gzip or plain. `# ...` comment; `a ID BYTES STREAM` allocation; `f ID` free; `i N` start of
 * iteration N. An ID is unique among live blocks and may be used again after its free. */
#ifndef PLEAT_BENCH_TRACE_H
#define PLEAT_BENCH_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/failure.h"

/* A free has bytes == 0. Slots are dense: a slot is a live block's place in an array, and is used
 * again after the free. Streams are numbered from 0 in the order of their first use. */
typedef struct bench_event {
    uint64_t bytes;
    uint32_t slot;
    uint32_t stream;
} bench_event;

typedef struct bench_trace {
    char name[96]; /* file name without folder, .gz and .trace */
    bench_event *events;
    size_t n_events;  /* a and f lines */
    size_t n_marks;   /* i lines */
    uint32_t n_slots; /* most live blocks */
    uint32_t n_streams;
    uint64_t peak_live_bytes; /* largest sum of live blocks, each rounded up to 512 bytes */
} bench_trace;

#define BENCH_LARGEST_BLOCK (UINT64_C(1) << 47) /* all the address space that a driver has */
#define BENCH_MOST_STREAMS 1024u                /* different ones in a trace */

/* Reads and checks the whole trace. False and a message with file and line when a line is not of
 * the format, an id is unknown or allocated twice, a size is 0 or absurd, the file is damaged or
 * holds no allocation. */
bool bench_trace_load(const char *path, bench_trace *out, bench_failure *failure);
void bench_trace_free(bench_trace *trace);

/* The file that WORK names: the path itself, or one of the bundled traces by its bare name. False
 * and a message when there is none. */
bool bench_trace_find(const char *work, char *path, size_t n, bench_failure *failure);
/* The folder of the bundled traces: PLEAT_TRACES, the repository's or the installed one. */
bool bench_trace_folder(char *path, size_t n);

#endif
