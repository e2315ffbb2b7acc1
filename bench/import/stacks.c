/* stacks.c - the call stacks of a snapshot, each once. */
#include "bench/import/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/text.h"

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
    free(stacks->texts);
    bench_ids_fini(&stacks->by_frames);
    bench_ids_fini(&stacks->by_text);
    *stacks = (bench_stacks){ .n = 0 };
}

/* FNV-1a. Two stacks with equal hashes would be shown as one. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static bool is_python(const value *frame)
{
    const value *file = bench_pickle_get(frame, "filename");
    return file && file->kind == BENCH_PICKLE_TEXT && file->length > 3 &&
           memcmp(file->as.text + file->length - 3, ".py", 3) == 0;
}

/* Copy a text, cut to the room. A path is cut at its front, since the end tells more. */
static void take_text(const value *frame, const char *key, bool is_path, char *out, size_t n)
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
    const value *line = bench_pickle_get(frame, "line");
    take_text(frame, "filename", true, file, sizeof file);
    take_text(frame, "name", false, name, sizeof name);
    long long number = line && line->kind == BENCH_PICKLE_INTEGER ? line->as.integer : 0;
    int written = snprintf(out, n, "%s:%lld %s\n", file, number, name);
    return written > 0 && (size_t)written < n ? (size_t)written : 0;
}

/* Write the stack without the last newline; return the length. */
static size_t write_stack(const bench_pickle_node *frames, char *out, size_t n)
{
    uint32_t n_frames = frames->n < MOST_LOOKED_AT ? frames->n : MOST_LOOKED_AT;
    bool has_python = false;
    for (uint32_t i = 0; i < n_frames; i++) {
        has_python = has_python || is_python(&frames->items[i]);
    }
    size_t used = 0;
    unsigned n_written = 0;
    for (uint32_t i = 0; i < n_frames && n_written < MOST_FRAMES; i++) {
        const value *frame = &frames->items[i];
        if (frame->kind == BENCH_PICKLE_DICT && (!has_python || is_python(frame))) {
            used += write_frame(frame, out + used, n - used);
            n_written++;
        }
    }
    used -= used > 0;
    out[used] = '\0';
    return used;
}

/* 1 + the index of a text, new or known; 0 = no room. */
static uint32_t intern(bench_stacks *s, const char *text, size_t n)
{
    bench_id *id = bench_ids_get(&s->by_text, hash_bytes(HASH_BEGIN, text, n));
    if (!id || id->is_live) {
        return id ? id->slot : 0;
    }
    if (s->n == s->capacity) {
        uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
        char **texts = realloc(s->texts, capacity * sizeof *texts);
        if (!texts) {
            return 0;
        }
        s->texts = texts;
        s->capacity = capacity;
    }
    char *copy = s->n_bytes + n < MOST_TEXT_BYTES ? malloc(n + 1) : NULL;
    if (!copy) {
        return 0;
    }
    memcpy(copy, text, n + 1);
    s->n_bytes += n + 1;
    s->texts[s->n++] = copy;
    id->is_live = true;
    id->slot = s->n;
    return s->n;
}

uint32_t bench_stacks_add(bench_stacks *s, const value *frames)
{
    if (!frames || frames->kind != BENCH_PICKLE_LIST || frames->as.node->n == 0) {
        return 0;
    }
    const bench_pickle_node *list = frames->as.node;
    uint64_t hash = HASH_BEGIN;
    for (uint32_t i = 0; i < list->n && i < MOST_LOOKED_AT; i++) {
        const value *frame = &list->items[i];
        const void *place = frame->kind == BENCH_PICKLE_DICT ? frame->as.node : NULL;
        hash = hash_bytes(hash, &place, sizeof place);
    }
    bench_id *id = bench_ids_get(&s->by_frames, hash);
    if (!id) {
        return 0;
    }
    if (!id->is_live) {
        char text[MOST_FRAMES * FRAME_BYTES];
        size_t n = write_stack(list, text, sizeof text);
        id->is_live = true;
        id->slot = n ? intern(s, text, n) : 0;
    }
    return id->slot;
}
