/* snapshot_fuzz.c - any bytes as PyTorch's memory snapshot, a pickle, JSON or an archive: refused,
 * or a good run of each device and of each rank.
 *
 * A first byte of 0 to 3, with which no such file begins, selects the device; the rest is the
 * file. */
#include <stdlib.h>

#include "bench/import/recording.h"
#include "tests/fuzz/fuzz.h"

/* The blocks at the snapshot are those that the run has to lead to. */
static void check_state(const bench_snapshot *snapshot)
{
    size_t n_in_use = 0;
    for (size_t i = 0; i < snapshot->state.n_pieces; i++) {
        const bench_state_piece *piece = &snapshot->state.pieces[i];
        fuzz_check(piece->kind <= BENCH_STATE_FREE, "a piece of no kind");
        fuzz_check(piece->stack <= snapshot->n_stacks, "a stack that is not there");
        n_in_use += piece->kind != BENCH_STATE_FREE;
    }
    fuzz_check(n_in_use == snapshot->n_live, "blocks in use that do not live");
}

static void read_device(const char *path, const char *rank, int device, bool tries_failures)
{
    bench_snapshot snapshot;
    bench_failure failure = { .text = "" };
    if (!bench_snapshot_read(path, NULL, rank, device, &snapshot, &failure)) {
        fuzz_check_message(failure.text);
        return;
    }
    check_state(&snapshot);
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
    read_device(path, NULL, names_device ? data[0] : BENCH_ANY_DEVICE, true);
    read_device(path, NULL, BENCH_ANY_DEVICE, false);
    bench_rank_name *names = NULL;
    unsigned n_names;
    bench_failure failure;
    if (bench_snapshot_ranks(path, NULL, &names, &n_names, &failure) && n_names > 0) {
        read_device(path, names[0], BENCH_ANY_DEVICE, false);
        read_device(path, names[n_names - 1], BENCH_ANY_DEVICE, false);
    }
    free(names);
    return 0;
}
