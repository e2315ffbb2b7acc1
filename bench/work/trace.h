/* trace.h - a recorded run: every allocation and free, in order.
 *
 * Text, gzip or plain. `# ...` comment; `a ID BYTES STREAM` allocation; `f ID` free; `i N` start of
 * iteration N. An ID is unique among live blocks and may be reused after its free. */
#ifndef PLEAT_BENCH_TRACE_H
#define PLEAT_BENCH_TRACE_H

#include "bench/work/inflate.h"
#include "bench/work/tape.h"

/* Read and check the whole trace. False and a message with file and line when a line is malformed,
 * an id is unknown or allocated twice, a size is 0 or absurd, or the file is damaged, too large or
 * without an allocation. `limits` may be NULL. */
bool bench_trace_read(const char *path, const bench_limits *limits, bench_tape *tape,
                      bench_failure *failure);

#endif
