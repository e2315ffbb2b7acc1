/* stacks.c - the call stacks of a snapshot, each once. */
#include "bench/import/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/text.h"
#include "bench/import/words.h"

enum { MOST_FRAMES = 48, FRAME_BYTES = 256, MOST_LOOKED_AT = 1024 };

#define MOST_TEXT_BYTES ((size_t)64 << 20)

typedef bench_pickle_value value;

bool bench_stacks_init(bench_stacks *stacks)
{
    *stacks = (bench_stacks){ .n = 0 };
    return bench_ids_init(&stacks->by_frames, &stacks->host, false) &&
           bench_ids_init(&stacks->by_text, &stacks->host, false);
}

void bench_stacks_fini(bench_stacks *stacks)
{
    for (uint32_t i = 0; stacks->texts && i < stacks->n; i++) {
        free(stacks->texts[i]);
    }
    for (uint32_t i = 0; i < stacks->n_frames; i++) {
        free(stacks->frames[i].text);
    }
    free(stacks->texts);
    free(stacks->frames);
    bench_ids_fini(&stacks->by_frames);
    bench_ids_fini(&stacks->by_text);
    *stacks = (bench_stacks){ .n = 0 };
}

/* FNV-1a. What has equal hashes would be shown as one. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* A copy of the text; NULL: no room. */
static char *keep_text(bench_stacks *s, const char *text, size_t n)
{
    char *copy = s->n_bytes + n < MOST_TEXT_BYTES ? malloc(n + 1) : NULL;
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = '\0';
        s->n_bytes += n + 1;
    }
    return copy;
}

/* ---- frames ---- */

static bool is_python(const value *frame)
{
    const value *file = bench_pickle_get(frame, BENCH_WORD_FILENAME);
    return file && file->kind == BENCH_PICKLE_TEXT && file->length > 3 &&
           memcmp(file->as.text + file->length - 3, ".py", 3) == 0;
}

/* Copy a text, cut to the room. A path is cut at its front, since the end tells more. */
static void take_text(const value *frame, unsigned key, bool is_path, char *out, size_t n)
{
    const value *text = bench_pickle_get(frame, key);
    bool is_text = text && text->kind == BENCH_PICKLE_TEXT;
    size_t skipped = is_text && is_path && text->length >= n ? text->length - n + 1 : 0;
    bench_text_clean(is_text ? text->as.text + skipped : "", is_text ? text->length - skipped : 0,
                     out, n);
}

static size_t write_frame(const value *frame, char *out, size_t n)
{
    char file[112];
    char name[112];
    const value *line = bench_pickle_get(frame, BENCH_WORD_LINE);
    take_text(frame, BENCH_WORD_FILENAME, true, file, sizeof file);
    take_text(frame, BENCH_WORD_NAME, false, name, sizeof name);
    long long number = line && line->kind == BENCH_PICKLE_INTEGER ? line->as.integer : 0;
    int written = snprintf(out, n, "%s:%lld %s", file, number, name);
    return written > 0 && (size_t)written < n ? (size_t)written : 0;
}

static bool add_frame(bench_stacks *s, const char *text, size_t n, bool is_of_python)
{
    if (s->n_frames == s->frame_capacity) {
        uint32_t capacity = s->frame_capacity ? 2 * s->frame_capacity : 64;
        bench_frame *frames = realloc(s->frames, capacity * sizeof *frames);
        if (!frames) {
            return false;
        }
        s->frames = frames;
        s->frame_capacity = capacity;
    }
    char *copy = keep_text(s, text, n);
    if (copy) {
        s->frames[s->n_frames++] = (bench_frame){ .text = copy, .is_python = is_of_python };
    }
    return copy != NULL;
}

uint32_t bench_stacks_frame(bench_stacks *s, const value *frame)
{
    char text[FRAME_BYTES];
    size_t n = write_frame(frame, text, sizeof text);
    bool is_of_python = is_python(frame); /* a clean text may have lost it */
    uint64_t hash = hash_bytes(hash_bytes(HASH_BEGIN, text, n), &is_of_python, 1);
    bench_id *id = bench_ids_get(&s->by_text, hash);
    if (!id) {
        return 0;
    }
    if (!id->is_live) {
        id->is_live = true;
        id->slot = add_frame(s, text, n, is_of_python) ? s->n_frames : 0;
    }
    return id->slot;
}

/* ---- stacks ---- */

/* The numbers of the frames to keep, at most MOST_FRAMES, and how many. */
static unsigned choose_frames(const bench_stacks *s, const bench_pickle_node *list, uint32_t *out)
{
    uint32_t all[MOST_LOOKED_AT];
    unsigned n = 0;
    bool has_python = false;
    for (uint32_t i = 0; i < list->n; i++) {
        const value *run = &list->of.items[i];
        uint32_t n_run = run->kind == BENCH_PICKLE_RUN ? run->at : 0;
        for (uint32_t k = 0; k < n_run && n < MOST_LOOKED_AT; k++) {
            uint64_t number = (uint64_t)run->as.integer + k;
            if (number > 0 && number <= s->n_frames) {
                all[n++] = (uint32_t)number;
                has_python = has_python || s->frames[number - 1].is_python;
            }
        }
    }
    unsigned n_kept = 0;
    for (unsigned i = 0; i < n && n_kept < MOST_FRAMES; i++) {
        if (!has_python || s->frames[all[i] - 1].is_python) {
            out[n_kept++] = all[i];
        }
    }
    return n_kept;
}

static bool add_text(bench_stacks *s, const uint32_t *frames, unsigned n)
{
    if (s->n == s->capacity) {
        uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
        char **texts = realloc(s->texts, capacity * sizeof *texts);
        if (!texts) {
            return false;
        }
        s->texts = texts;
        s->capacity = capacity;
    }
    char text[MOST_FRAMES * FRAME_BYTES];
    size_t used = 0;
    for (unsigned i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "\n" : "",
                                 s->frames[frames[i] - 1].text);
    }
    char *copy = keep_text(s, text, used);
    if (copy) {
        s->texts[s->n++] = copy;
    }
    return copy != NULL;
}

uint32_t bench_stacks_add(bench_stacks *s, const bench_pickle_node *list)
{
    uint32_t frames[MOST_FRAMES];
    unsigned n = choose_frames(s, list, frames);
    if (n == 0) {
        return 0;
    }
    bench_id *id = bench_ids_get(&s->by_frames, hash_bytes(HASH_BEGIN, frames, n * sizeof *frames));
    if (!id) {
        return 0;
    }
    if (!id->is_live) {
        id->is_live = true;
        id->slot = add_text(s, frames, n) ? s->n : 0;
    }
    return id->slot;
}
