/* minimalloc_fuzz.c - any bytes as a problem of minimalloc: refused, or good events, with as many
 * frees as allocations. The length of the input selects the scale. */
#include "bench/import/minimalloc.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint64_t scales[] = { 1, BENCH_MINIMALLOC_SCALE, UINT64_C(1) << 40 };
    uint64_t scale = scales[n % (sizeof scales / sizeof scales[0])];
    bench_tape tape;
    bench_failure failure = { .text = "" };
    bench_tape_init(&tape);
    if (bench_minimalloc_read(fuzz_file(data, n), NULL, scale, &tape, &failure)) {
        fuzz_check_tape(&tape);
        fuzz_check(tape.live_bytes == 0, "%llu bytes stay live",
                   (unsigned long long)tape.live_bytes);
    } else {
        fuzz_check_message(failure.text);
    }
    bench_tape_fini(&tape);
    return 0;
}
