/* trace_fuzz.c - any bytes as a trace, plain or packed by gzip: refused, or good events. Other
 * kinds of files are recognised by their contents. */
#include "bench/work/trace.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file(data, n);
    bench_tape tape;
    bench_failure failure = { .text = "" };
    bench_tape_init(&tape);
    if (bench_trace_read(path, NULL, BENCH_BLOCKS_ALL, &tape, &failure)) {
        fuzz_check_tape(&tape);
    } else {
        fuzz_check_message(failure.text);
    }
    bench_tape_fini(&tape);
    fuzz_read_work_file(path);
    return 0;
}
