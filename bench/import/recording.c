/* recording.c - turns a snapshot into a run that can be replayed. Two passes: which blocks were
 * live before, then the events. */
#include "bench/import/recording.h"

#include <stdlib.h>

#include "bench/work/ids.h"
#include "bench/work/streams.h"

typedef struct writer {
    const char *path;
    const bench_snapshot *snapshot;
    bool tries_failures;
    bench_tape *tape;
    bench_failure *failure;
    bench_ids ids; /* addresses */
    bench_streams streams;
    const bench_snapshot_entry **before; /* blocks that were live before the recording */
    size_t n_before;
    bench_recording recording;
} writer;

static bool complain(const writer *w, const bench_snapshot_entry *entry, const char *text)
{
    return bench_fail(w->failure, "%s: byte %lu: %s", w->path, (unsigned long)entry->at, text);
}

static bool complain_of_address(const writer *w, const bench_snapshot_entry *entry,
                                const char *text)
{
    return bench_fail(w->failure, "%s: byte %lu: the block at 0x%llx %s", w->path,
                      (unsigned long)entry->at, (unsigned long long)entry->address, text);
}

/* The first entry about an address; if it is no allocation, there was an older block. */
static bool look_at(writer *w, const bench_snapshot_entry *entry, bool is_allocation)
{
    size_t n_known = w->ids.n_entries;
    if (!bench_ids_get(&w->ids, entry->address)) {
        return complain(w, entry, "out of host memory");
    }
    if (w->ids.n_entries > n_known && !is_allocation) {
        w->before[w->n_before++] = entry;
    }
    return true;
}

static bool find_before(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    for (size_t i = 0; i < s->n_entries; i++) {
        const bench_snapshot_entry *entry = &s->entries[i];
        if (entry->action <= BENCH_SNAPSHOT_FREE_COMPLETED &&
            !look_at(w, entry, entry->action == BENCH_SNAPSHOT_ALLOC)) {
            return false;
        }
    }
    for (size_t i = 0; i < s->n_live; i++) {
        if (!look_at(w, &s->live[i], false)) {
            return false;
        }
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const bench_snapshot_entry *x = *(const bench_snapshot_entry *const *)a;
    const bench_snapshot_entry *y = *(const bench_snapshot_entry *const *)b;
    return (x->address > y->address) - (x->address < y->address);
}

static bool find_stream(writer *w, const bench_snapshot_entry *entry, uint32_t *out)
{
    return bench_streams_find(&w->streams, entry->stream, out) ||
           complain(w, entry, "more than 1024 streams");
}

/* The next event of the tape is an allocation of this entry. There is room for all. */
static void note_stack(writer *w, const bench_snapshot_entry *entry)
{
    w->recording.stack_of[w->tape->n_events] = entry->stack;
    w->recording.n_events = (size_t)w->tape->n_events + 1;
}

static bool write_alloc(writer *w, const bench_snapshot_entry *entry)
{
    bench_id *id = bench_ids_get(&w->ids, entry->address);
    uint32_t stream = 0;
    if (!id) {
        return complain(w, entry, "out of host memory");
    }
    if (id->is_live) {
        return complain_of_address(w, entry, "is allocated twice");
    }
    if (!find_stream(w, entry, &stream)) {
        return false;
    }
    note_stack(w, entry);
    id->is_live = bench_tape_alloc(w->tape, entry->bytes, stream, &id->slot);
    return id->is_live || complain(w, entry, w->tape->problem);
}

static bool write_free(writer *w, const bench_snapshot_entry *entry)
{
    bench_id *id = bench_ids_get(&w->ids, entry->address);
    if (!id) {
        return complain(w, entry, "out of host memory");
    }
    if (!id->is_live) {
        return complain_of_address(w, entry, "is freed twice");
    }
    id->is_live = false;
    return bench_tape_free(w->tape, id->slot) || complain(w, entry, w->tape->problem);
}

/* A size that no device could have given is left out. */
static bool write_failure(writer *w, const bench_snapshot_entry *entry)
{
    uint32_t stream = 0;
    uint32_t slot;
    if (!w->tries_failures || entry->bytes == 0 || entry->bytes > BENCH_LARGEST_BLOCK) {
        return true;
    }
    if (!find_stream(w, entry, &stream)) {
        return false;
    }
    note_stack(w, entry);
    return (bench_tape_alloc(w->tape, entry->bytes, stream, &slot) &&
            bench_tape_free(w->tape, slot)) ||
           complain(w, entry, w->tape->problem);
}

static void note_call(writer *w, const bench_snapshot_entry *entry)
{
    w->recording.calls[w->recording.n_calls++] = (bench_recorded_call){
        .bytes = entry->bytes, .n_events = w->tape->n_events, .action = entry->action
    };
}

static bool write_entry(writer *w, const bench_snapshot_entry *entry)
{
    switch ((bench_snapshot_action)entry->action) {
    case BENCH_SNAPSHOT_ALLOC:
        return write_alloc(w, entry);
    case BENCH_SNAPSHOT_FREE_COMPLETED:
        return write_free(w, entry);
    case BENCH_SNAPSHOT_OOM:
        return write_failure(w, entry);
    case BENCH_SNAPSHOT_SEGMENT_ALLOC:
    case BENCH_SNAPSHOT_SEGMENT_FREE:
    case BENCH_SNAPSHOT_SEGMENT_MAP:
    case BENCH_SNAPSHOT_SEGMENT_UNMAP:
        note_call(w, entry);
        return true;
    case BENCH_SNAPSHOT_FREE_REQUESTED:
    case BENCH_SNAPSHOT_OTHER:
        break;
    }
    return true;
}

static bool write_all(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    w->before = calloc(s->n_entries + s->n_live + 1, sizeof(const bench_snapshot_entry *));
    w->recording.calls = calloc(s->n_entries + 1, sizeof *w->recording.calls);
    if (!w->before || !w->recording.calls || !bench_ids_init(&w->ids, &w->tape->host, false)) {
        return bench_fail(w->failure, "%s: out of host memory", w->path);
    }
    if (!find_before(w)) {
        return false;
    }
    /* An entry makes two events at most, and a block from before one. */
    w->recording.stack_of = calloc(w->n_before + 2 * s->n_entries + 1,
                                   sizeof *w->recording.stack_of);
    if (!w->recording.stack_of) {
        return bench_fail(w->failure, "%s: out of host memory", w->path);
    }
    qsort(w->before, w->n_before, sizeof *w->before, by_address);
    for (size_t i = 0; i < w->n_before; i++) {
        if (!write_alloc(w, w->before[i])) {
            return false;
        }
    }
    w->recording.n_before = w->n_before;
    for (size_t i = 0; i < s->n_entries; i++) {
        if (!write_entry(w, &s->entries[i])) {
            return false;
        }
    }
    return w->tape->n_slots > 0 ||
           bench_fail(w->failure, "%s: the recording holds no allocation", w->path);
}

bool bench_recording_write(const char *path, const bench_snapshot *snapshot, bool tries_failures,
                           bench_tape *tape, bench_recording *out, bench_failure *failure)
{
    writer w = {
        .path = path,
        .snapshot = snapshot,
        .tries_failures = tries_failures,
        .tape = tape,
        .failure = failure,
    };
    bool ok = write_all(&w);
    bench_ids_fini(&w.ids);
    free(w.before);
    if (ok && out) {
        *out = w.recording;
    } else {
        bench_recording_free(&w.recording);
    }
    return ok;
}

void bench_recording_free(bench_recording *recording)
{
    free(recording->calls);
    free(recording->stack_of);
    *recording = (bench_recording){ .n_calls = 0 };
}
