/* recording.c - turns a snapshot into a run that can be replayed. First find the blocks from before
 * the recording, then the end of each free; then write the events. */
#include "bench/import/recording.h"

#include <stdlib.h>

#include "bench/work/ids.h"
#include "bench/work/streams.h"

enum { MOST_SIDES = 32 };

#define NEVER UINT32_MAX

/* An invented stream, for uses without a recorded stream. Uses on such a stream end in order of
 * their beginnings, like a stream's work. */
typedef struct side {
    uint32_t last_end; /* of the stream's uses: the number of an entry */
} side;

typedef struct writer {
    const char *path;
    const bench_snapshot *snapshot;
    bool tries_failures;
    bench_tape *tape;
    bench_failure *failure;
    bench_ids ids; /* addresses; marked: freed, and use number `slot` goes on */
    bench_streams streams;
    const bench_snapshot_entry **before; /* blocks from before the recording */
    size_t n_before;
    const bench_snapshot_entry *cut;        /* freed; the ring has lost the free; NULL = none */
    bool has_requests;                      /* some entry is a free_requested; */
    bool has_ends;                          /* a free_completed; recordings may lack either kind */
    const bench_snapshot_entry *last_alloc; /* NULL = the history has none */
    uint32_t *end_of; /* by entry of a free_requested: its free_completed; 0 = follows at once */
    side sides[MOST_SIDES];
    unsigned n_sides;
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

static bool is_of_block(const writer *w, const bench_snapshot_entry *entry)
{
    return entry->action <= BENCH_SNAPSHOT_FREE_COMPLETED && entry != w->cut;
}

static void find_kinds(writer *w)
{
    for (size_t i = 0; i < w->snapshot->n_entries; i++) {
        uint8_t action = w->snapshot->entries[i].action;
        w->has_requests = w->has_requests || action == BENCH_SNAPSHOT_FREE_REQUESTED;
        w->has_ends = w->has_ends || action == BENCH_SNAPSHOT_FREE_COMPLETED;
        w->last_alloc = action == BENCH_SNAPSHOT_ALLOC ? &w->snapshot->entries[i] : w->last_alloc;
    }
    w->recording.lacks_requests = w->has_ends && !w->has_requests;
    w->recording.lacks_ends = w->has_requests && !w->has_ends;
}

/* A ring that ran over may begin between the two entries of a free. Then the block is already
 * gone. */
static void find_cut(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    size_t i = 0;
    while (i < s->n_entries && !is_of_block(w, &s->entries[i])) {
        i++;
    }
    bool is_cut = i < s->n_entries && w->has_requests &&
                  s->entries[i].action == BENCH_SNAPSHOT_FREE_COMPLETED;
    w->cut = is_cut ? &s->entries[i] : NULL;
    w->recording.is_cut = is_cut;
}

/* ---- earlier blocks, and the completion of frees --------------------------------------------- */

/* The first entry about an address. If the entry is not an allocation, the block is older than the
 * recording. */
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
        if (is_of_block(w, entry) && !look_at(w, entry, entry->action == BENCH_SNAPSHOT_ALLOC)) {
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

/* Do the events end with the blocks of the snapshot? Blocks that no entry mentions may exist
 * besides. Without free_requested a block lives in the events until its free is completed. */
static bool leads_to_state(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    size_t n_live = 0;
    for (size_t i = 0; i < s->n_entries; i++) {
        if (is_of_block(w, &s->entries[i])) {
            bench_id *id = bench_ids_get(&w->ids, s->entries[i].address); /* known, as all below */
            bool is_live = s->entries[i].action == BENCH_SNAPSHOT_ALLOC;
            n_live += (size_t)is_live - (size_t)id->is_live;
            id->is_live = is_live;
            id->is_marked = true;
        }
    }
    bool is_so = true;
    for (size_t i = 0; i < s->n_live; i++) {
        const bench_id *id = bench_ids_get(&w->ids, s->live[i].address);
        bool is_live = s->live[i].action == BENCH_SNAPSHOT_ALLOC || w->recording.lacks_requests;
        is_so = is_so && (!id->is_marked || id->is_live == is_live);
        n_live -= is_live && id->is_live;
    }
    return is_so && n_live == 0;
}

/* The table as find_before left it. */
static void forget_state(writer *w)
{
    for (size_t i = 0; i < w->snapshot->n_entries; i++) {
        const bench_snapshot_entry *entry = &w->snapshot->entries[i];
        if (is_of_block(w, entry)) {
            bench_id *id = bench_ids_get(&w->ids, entry->address);
            id->is_live = id->is_marked = false;
        }
    }
}

/* Go from the last entry to the first, and note the next free_completed of each address. */
static void find_ends(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    uint32_t next = NEVER; /* entry about a block */
    for (uint32_t i = (uint32_t)s->n_entries; i-- > 0;) {
        const bench_snapshot_entry *entry = &s->entries[i];
        if (!is_of_block(w, entry)) {
            continue;
        }
        bench_id *id = bench_ids_get(&w->ids, entry->address);
        if (entry->action == BENCH_SNAPSHOT_FREE_REQUESTED) {
            uint32_t end = id->is_marked ? id->slot : NEVER;
            w->end_of[i] = end == next && end != NEVER ? 0 : end;
        }
        id->is_marked = entry->action == BENCH_SNAPSHOT_FREE_COMPLETED;
        id->slot = i;
        next = i;
    }
    forget_state(w); /* marks change their meaning here */
}

static int by_address(const void *a, const void *b)
{
    const bench_snapshot_entry *x = *(const bench_snapshot_entry *const *)a;
    const bench_snapshot_entry *y = *(const bench_snapshot_entry *const *)b;
    return (x->address > y->address) - (x->address < y->address);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool find_stream(writer *w, const bench_snapshot_entry *entry, uint64_t id, uint32_t *out)
{
    return bench_streams_find(&w->streams, id, out) || complain(w, entry, "more than 1024 streams");
}

/* The next event of the tape is an allocation of this entry. There is room for all. */
static void note_stack(writer *w, const bench_snapshot_entry *entry)
{
    w->recording.stack_of[w->tape->n_events] = entry->stack;
    w->recording.n_events = (size_t)w->tape->n_events + 1;
}

static bool end_use(writer *w, const bench_snapshot_entry *entry, bench_id *id)
{
    id->is_marked = false;
    return bench_tape_use_end(w->tape, id->slot) || complain(w, entry, w->tape->problem);
}

static bool write_alloc(writer *w, const bench_snapshot_entry *entry)
{
    bench_id *id = bench_ids_get(&w->ids, entry->address);
    uint32_t stream = 0;
    if (!id) {
        return complain(w, entry, "out of host memory");
    }
    if (id->is_live) {
        return complain_of_address(w, entry,
                                   w->has_requests || w->has_ends
                                       ? "is allocated twice"
                                       : "is allocated twice, since the history has no frees: "
                                         "record free_requested and free_completed, too");
    }
    if ((id->is_marked && !end_use(w, entry, id)) ||
        !find_stream(w, entry, entry->stream, &stream)) {
        return false;
    }
    note_stack(w, entry);
    if (!bench_tape_alloc(w->tape, entry->bytes, stream, &id->slot)) {
        return complain(w, entry, w->tape->problem);
    }
    bench_ids_begin(&w->ids, id);
    return true;
}

/* Choose a side for uses that end at `end` or later: the side with the latest last end before
 * `end`. */
static uint64_t find_side(writer *w, uint32_t end)
{
    unsigned found = w->n_sides;
    for (unsigned i = 0; i < w->n_sides; i++) {
        bool is_better = found == w->n_sides || w->sides[i].last_end > w->sides[found].last_end;
        found = w->sides[i].last_end <= end && is_better ? i : found;
    }
    found = found < MOST_SIDES ? found : MOST_SIDES - 1; /* then some end early */
    w->n_sides = found < w->n_sides ? w->n_sides : found + 1;
    w->sides[found].last_end = end;
    return UINT64_MAX - found; /* no recorded handle is this large */
}

/* The program has freed the block; other streams use it until entry number `end`. */
static bool write_pending(writer *w, const bench_snapshot_entry *entry, bench_id *id, uint32_t end)
{
    uint32_t stream = 0;
    uint32_t use = 0;
    if (!find_stream(w, entry, find_side(w, end), &stream)) {
        return false;
    }
    bench_ids_end(&w->ids, id);
    if (!bench_tape_use(w->tape, id->slot, stream, &use) || !bench_tape_free(w->tape, id->slot)) {
        return complain(w, entry, w->tape->problem);
    }
    id->slot = use;
    id->is_marked = true;
    return true;
}

static bool complain_of_free(const writer *w, const bench_snapshot_entry *entry)
{
    return complain_of_address(w, entry,
                               w->last_alloc ? "is freed twice"
                                             : "is freed twice, since the history has no "
                                               "allocations: record alloc, too");
}

static bool write_free(writer *w, const bench_snapshot_entry *entry)
{
    bench_id *id = bench_ids_get(&w->ids, entry->address);
    if (!id) {
        return complain(w, entry, "out of host memory");
    }
    if (id->is_marked) {
        return end_use(w, entry, id);
    }
    if (!id->is_live) {
        return complain_of_free(w, entry);
    }
    bench_ids_end(&w->ids, id);
    return bench_tape_free(w->tape, id->slot) || complain(w, entry, w->tape->problem);
}

static bool write_request(writer *w, const bench_snapshot_entry *entry)
{
    uint32_t end = w->end_of[entry - w->snapshot->entries];
    bench_id *id = bench_ids_get(&w->ids, entry->address);
    if (!id) {
        return complain(w, entry, "out of host memory");
    }
    if (!id->is_live) {
        return complain_of_free(w, entry);
    }
    return !w->has_ends ? write_free(w, entry) : end == 0 || write_pending(w, entry, id, end);
}

/* A request that was given up, as the run goes on without it, is no need. A size larger than any
 * device is left out. */
static bool write_failure(writer *w, const bench_snapshot_entry *entry)
{
    uint32_t stream = 0;
    uint32_t slot;
    bool goes_on = w->last_alloc && entry < w->last_alloc;
    if (goes_on || !w->tries_failures || entry->bytes == 0 || entry->bytes > BENCH_LARGEST_BLOCK) {
        return true;
    }
    if (!find_stream(w, entry, entry->stream, &stream)) {
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
    case BENCH_SNAPSHOT_FREE_REQUESTED:
        return write_request(w, entry);
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
    case BENCH_SNAPSHOT_TAKEN:
    case BENCH_SNAPSHOT_OTHER:
        break;
    }
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool make_room(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    w->before = calloc(s->n_entries + s->n_live + 1, sizeof(const bench_snapshot_entry *));
    w->end_of = calloc(s->n_entries + 1, sizeof *w->end_of);
    w->recording.calls = calloc(s->n_entries + 1, sizeof *w->recording.calls);
    /* An entry makes two events at most, and so does a block from before. */
    size_t n_events = 2 * (2 * s->n_entries + s->n_live) + 1;
    w->recording.stack_of = calloc(n_events, sizeof *w->recording.stack_of);
    return w->before && w->end_of && w->recording.calls && w->recording.stack_of &&
           bench_ids_init(&w->ids, &w->tape->host, false);
}

/* Blocks that were already freed come first and are freed at once, since they only wait for other
 * streams. Without free_requested nothing tells such blocks from live blocks, so all count as live.
 * If the events do not lead to the state, a block that no entry mentions may be newer than the
 * events, and is left out. */
static bool write_before(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    qsort(w->before, w->n_before, sizeof *w->before, by_address);
    for (int of_live = 0; of_live < 2; of_live++) {
        for (size_t i = 0; i < w->n_before; i++) {
            const bench_snapshot_entry *entry = w->before[i];
            bool is_pending = entry->action == BENCH_SNAPSHOT_FREE_COMPLETED &&
                              !w->recording.lacks_requests;
            bool ends = entry >= s->entries && entry < s->entries + s->n_entries;
            uint32_t end = ends ? (uint32_t)(entry - s->entries) : NEVER;
            if (is_pending == of_live || !(ends || w->recording.leads_to_state)) {
                continue;
            }
            if (!write_alloc(w, entry) ||
                (is_pending &&
                 !write_pending(w, entry, bench_ids_get(&w->ids, entry->address), end))) {
                return false;
            }
            w->recording.n_before++;
        }
    }
    w->recording.n_before_events = w->tape->n_events;
    w->recording.before_bytes = w->tape->live_bytes;
    return true;
}

/* The entries of the snapshot, behind the earlier blocks. */
static bool write_entries(writer *w, uint64_t *levels)
{
    const bench_snapshot *s = w->snapshot;
    for (size_t i = 0; i < s->n_entries; i++) {
        if (&s->entries[i] != w->cut && !write_entry(w, &s->entries[i])) {
            return false;
        }
        levels[i] = w->tape->live_bytes;
    }
    bench_steps_look(levels, s->n_entries, w->tape->peak_live_bytes, &w->recording.steps);
    return w->tape->n_slots > 0 ||
           bench_fail(w->failure, "%s: the recording holds no allocation", w->path);
}

static bool write_all(writer *w)
{
    const bench_snapshot *s = w->snapshot;
    if (!make_room(w)) {
        return bench_fail(w->failure, "%s: out of host memory", w->path);
    }
    find_kinds(w);
    find_cut(w);
    if (!find_before(w)) {
        return false;
    }
    w->recording.leads_to_state = leads_to_state(w);
    forget_state(w);
    find_ends(w);
    if (!write_before(w)) {
        return false;
    }
    uint64_t *levels = calloc(s->n_entries + 1, sizeof *levels);
    bool ok = levels ? write_entries(w, levels)
                     : bench_fail(w->failure, "%s: out of host memory", w->path);
    free(levels);
    return ok;
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
    free(w.end_of);
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
