/* leaks.c - what was allocated after a mark and still lives.
 *
 * A mark is the number of a history's next entry. A live block is as old as the last ALLOC at its
 * address. So a history without a gap since the mark tells all: without an ALLOC there, the block
 * is older than the mark. */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "api/base/text.h"
#include "api/instance/instance.h"
#include "api/snapshot/snapshot_state.h"

/* Live blocks of one stack; while they are counted, one block. */
typedef struct site {
    uint64_t bytes;
    uint64_t oldest; /* allocations before it, of those in the history */
    size_t n_blocks;
    uint32_t frames;
} site;

typedef struct survey {
    pl_meta meta;
    pl_snapshot_state state;
    site *sites; /* [n_sites], room for each block of the state */
    size_t n_sites;
    uint64_t n_allocs; /* in the history */
} survey;

/* ---- marks ---- */

pleat_status pleat_mark(pleat handle, int device, uint64_t *mark)
{
    if (!mark) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_mark: an out-parameter is NULL");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    pleat_status st = gpu ? PLEAT_OK : pl_use_check_device(use.instance, device);
    pl_lock_acquire(&use.instance->lock);
    bool is_recording = use.instance->history_entries > 0;
    uint64_t number = gpu ? pl_history_n_told(&gpu->history) : 0;
    pl_lock_release(&use.instance->lock);
    if (st == PLEAT_OK && !is_recording) {
        st = pl_error_set(PLEAT_EINVAL, 0,
                          "pleat_mark: nothing is recorded; call pleat_history_record before");
    }
    if (st == PLEAT_OK) {
        *mark = number;
    }
    pl_use_leave(use);
    return st;
}

/* ---- counting ---- */

static int by_stack(const void *a, const void *b)
{
    const site *x = a;
    const site *y = b;
    return (x->frames > y->frames) - (x->frames < y->frames);
}

static int by_bytes(const void *a, const void *b)
{
    const site *x = a;
    const site *y = b;
    int order = (x->bytes < y->bytes) - (x->bytes > y->bytes);
    return order != 0 ? order : (x->oldest > y->oldest) - (x->oldest < y->oldest);
}

/* A site for each live block that was allocated after the mark, at the place of the block. */
static void find_blocks(survey *s, uint64_t mark)
{
    const pl_snapshot_state *state = &s->state;
    uint64_t first = state->n_told - state->n_entries;
    for (size_t i = 0; i < state->n_entries; i++) {
        const pl_history_entry *entry = &state->entries[i];
        if (entry->action != PL_ACTION_ALLOC) {
            continue;
        }
        s->n_allocs++;
        const pl_snapshot_block *block = first + i >= mark ? pl_snapshot_find(state, entry->base)
                                                           : NULL;
        if (block && block->use == PL_SNAPSHOT_ALLOCATED) {
            s->sites[block - state->blocks] = (site){ .bytes = block->requested_bytes,
                                                      .oldest = s->n_allocs,
                                                      .n_blocks = 1,
                                                      .frames = entry->frames };
        }
    }
}

/* Joins the sites of one stack. */
static void join(survey *s)
{
    size_t n = 0;
    qsort(s->sites, s->state.n_blocks, sizeof *s->sites, by_stack);
    for (size_t i = 0; i < s->state.n_blocks; i++) {
        const site *one = &s->sites[i];
        site *last = n > 0 ? &s->sites[n - 1] : NULL;
        if (one->n_blocks == 0) {
            continue;
        }
        if (last && last->frames == one->frames) {
            last->bytes += one->bytes;
            last->n_blocks++;
            last->oldest = one->oldest < last->oldest ? one->oldest : last->oldest;
        } else {
            s->sites[n++] = *one;
        }
    }
    s->n_sites = n;
    qsort(s->sites, n, sizeof *s->sites, by_bytes);
}

/* ---- telling ---- */

static bool is_same_file(const void *address, const char *filename)
{
    pl_frame frame;
    pl_frame_describe(address, &frame);
    return strcmp(frame.filename, filename) == 0;
}

/* The innermost frame outside of pleat's library; 0 if pleat is a part of the program. */
static size_t first_foreign(void *const *frames, size_t n)
{
    pl_frame own;
    pl_frame_describe((const char *)(uintptr_t)pleat_leaks + 1, &own);
    if (is_same_file((const void *)(getauxval(AT_PHDR) + 1), own.filename)) {
        return 0;
    }
    size_t i = 0;
    while (i < n && is_same_file(frames[i], own.filename)) {
        i++;
    }
    return i < n ? i : 0;
}

static void add_frames(pl_text *text, void *const *frames, size_t n)
{
    enum { N_SHOWN = 3 };
    size_t first = first_foreign(frames, n);
    for (size_t i = first; i < n && i < first + N_SHOWN; i++) {
        pl_frame frame;
        pl_frame_describe(frames[i], &frame);
        pl_text_add(text, "%s%s", i > first ? " < " : ", ", frame.name);
    }
}

static void tell(survey *s, const site *one, void (*see)(const pleat_leak *, void *), void *context)
{
    pl_gpu *gpu = s->state.gpu;
    char room[1024];
    void *stack[PL_HISTORY_DEPTH];
    pl_text text;
    pleat_leak leak = {
        .device = gpu->ordinal,
        .n_blocks = one->n_blocks,
        .bytes = one->bytes,
        .age = s->n_allocs - one->oldest,
        .n_frames = pl_history_stack(&gpu->history, one->frames, stack),
        .frames = stack,
        .text = room,
    };
    pl_text_init(&text, room, sizeof room);
    pl_text_add(&text, "%zu block%s, ", leak.n_blocks, leak.n_blocks == 1 ? "" : "s");
    pl_text_add_bytes(&text, leak.bytes);
    pl_text_add(&text, ", %llu allocation%s old", (unsigned long long)leak.age,
                leak.age == 1 ? "" : "s");
    add_frames(&text, stack, leak.n_frames);
    see(&leak, context);
}

/* ---- the whole ---- */

static pleat_status refuse(const pl_snapshot_state *state, uint64_t mark)
{
    int device = state->gpu->ordinal;
    if (mark > state->n_told) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_leaks: device %d never had the mark %llu",
                            device, (unsigned long long)mark);
    }
    if (!pl_history_is_whole(&state->gpu->history, mark)) {
        return pl_error_set(PLEAT_EINVAL, 0,
                            "pleat_leaks: device %d: the recording was stopped or begun anew after "
                            "the mark; mark again",
                            device);
    }
    uint64_t n_since = state->n_told - mark;
    if (n_since > state->n_entries) {
        return pl_error_set(PLEAT_EINVAL, 0,
                            "pleat_leaks: device %d: its history keeps %zu entries, and %llu came "
                            "after the mark; record more, or mark later",
                            device, state->n_entries, (unsigned long long)n_since);
    }
    return PLEAT_OK;
}

static pleat_status look(survey *s, pl_gpu *gpu, uint64_t mark)
{
    pleat_status st = pl_snapshot_copy(gpu, &s->meta, &s->state);
    if (st == PLEAT_OK) {
        st = refuse(&s->state, mark);
        if (st != PLEAT_OK) {
            return st;
        }
        s->sites = pl_meta_calloc(&s->meta, s->state.n_blocks + 1, sizeof *s->sites);
    }
    if (!s->sites) {
        return pl_error_set(PLEAT_ENOMEM_HOST, 0, "device %d: no host memory to copy its state",
                            gpu->ordinal);
    }
    find_blocks(s, mark);
    join(s);
    return PLEAT_OK;
}

static pleat_status survey_gpu(pl_gpu *gpu, uint64_t mark, void (*see)(const pleat_leak *, void *),
                               void *context)
{
    survey s = { .n_sites = 0 };
    pleat_status st = pl_meta_init(&s.meta);
    if (st != PLEAT_OK) {
        return pl_error_set(st, 0, "device %d: no host memory to copy its state", gpu->ordinal);
    }
    st = look(&s, gpu, mark);
    for (size_t i = 0; i < s.n_sites; i++) {
        tell(&s, &s.sites[i], see, context);
    }
    pl_meta_free(&s.meta, s.sites);
    pl_snapshot_forget(&s.meta, &s.state);
    (void)pl_meta_fini(&s.meta);
    return st;
}

pleat_status pleat_leaks(pleat handle, int device, uint64_t mark,
                         void (*see)(const pleat_leak *, void *), void *context)
{
    if (!see) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_leaks: `see` is NULL");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    pleat_status st = gpu ? survey_gpu(gpu, mark, see, context)
                          : pl_use_check_device(use.instance, device);
    if (st == PLEAT_OK && !gpu && mark > 0) {
        st = pl_error_set(PLEAT_EINVAL, 0, "pleat_leaks: device %d never had the mark %llu", device,
                          (unsigned long long)mark);
    }
    pl_use_leave(use);
    return st;
}
