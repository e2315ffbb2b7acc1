/* snapshot_fuzz.c - any bytes as PyTorch's memory snapshot: refused, or a good run of each device.
 *
 * A first byte of 0 to 3, with which no pickle begins, selects the device; the rest is the file. */
#include "bench/import/recording.h"
#include "tests/fuzz/fuzz.h"

static void read_device(const char *path, int device, bool tries_failures)
{
    bench_snapshot snapshot;
    bench_failure failure = { .text = "" };
    if (!bench_snapshot_read(path, NULL, device, &snapshot, &failure)) {
        fuzz_check_message(failure.text);
        return;
    }
    bench_tape tape;
    bench_recording recording;
    bench_tape_init(&tape);
    if (bench_recording_write(path, &snapshot, tries_failures, &tape, &recording, &failure)) {
        fuzz_check_tape(&tape);
        fuzz_check(recording.n_calls <= snapshot.n_entries, "more calls than entries");
        for (size_t i = 0; i < recording.n_calls; i++) {
            fuzz_check(recording.calls[i].n_events <= tape.n_events, "a call after the end");
        }
        bench_recording_free(&recording);
    } else {
        fuzz_check_message(failure.text);
    }
    bench_tape_fini(&tape);
    bench_snapshot_free(&snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    bool names_device = n > 0 && data[0] < 4;
    const char *path = fuzz_file(data + names_device, n - names_device);
    read_device(path, names_device ? data[0] : BENCH_ANY_DEVICE, true);
    read_device(path, BENCH_ANY_DEVICE, false);
    return 0;
}
