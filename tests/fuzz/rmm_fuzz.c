/* rmm_fuzz.c - any bytes as a log of RMM: refused, or good events, however failures are treated. */
#include "bench/import/rmm.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    bool is_read[2];
    uint64_t n_events[2] = { 0, 0 };
    for (int tries = 0; tries < 2; tries++) {
        bench_tape tape;
        bench_failure failure = { .text = "" };
        bench_tape_init(&tape);
        is_read[tries] = bench_rmm_read(fuzz_file(data, n), NULL, tries == 1, &tape, &failure);
        n_events[tries] = tape.n_events;
        if (!is_read[tries]) {
            fuzz_check_message(failure.text);
        } else if (tape.n_slots > 0) {
            fuzz_check_tape(&tape);
        }
        bench_tape_fini(&tape);
    }
    fuzz_check(!(is_read[0] && is_read[1]) || n_events[0] <= n_events[1],
               "fewer events with failures than without");
    return 0;
}
