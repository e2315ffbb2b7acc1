/* bench_snapshot.c - see bench_snapshot.h. Opcodes: CPython, Lib/pickle.py. */
#include "tests/support/bench/bench_snapshot.h"

#include <check.h>
#include <string.h>

enum { MOST_STRINGS = 128, BATCH = 1000 };

typedef struct writer {
    unsigned char *out;
    size_t n;
    size_t at;
    int protocol;
    uint32_t n_memo;
    const char *strings[MOST_STRINGS]; /* with their memo ids */
    uint32_t string_ids[MOST_STRINGS];
    unsigned n_strings;
    bool has_frames;
    uint32_t frames_id;
} writer;

static void put(writer *w, const void *bytes, size_t n)
{
    ck_assert_uint_le(n, w->n - w->at);
    memcpy(w->out + w->at, bytes, n);
    w->at += n;
}

static void put_byte(writer *w, unsigned byte)
{
    unsigned char c = (unsigned char)byte;
    put(w, &c, 1);
}

static void put_number(writer *w, uint64_t number, unsigned n_bytes)
{
    for (unsigned i = 0; i < n_bytes; i++) {
        put_byte(w, (unsigned)(number >> (8 * i)) & 0xff);
    }
}

/* Remember the top of the stack, and return its id. */
static uint32_t memoize(writer *w)
{
    uint32_t id = w->n_memo++;
    if (w->protocol >= 4) {
        put_byte(w, 0x94); /* MEMOIZE */
    } else if (id < 256) {
        put_byte(w, 'q'); /* BINPUT */
        put_byte(w, id);
    } else {
        put_byte(w, 'r'); /* LONG_BINPUT */
        put_number(w, id, 4);
    }
    return id;
}

static void fetch(writer *w, uint32_t id)
{
    put_byte(w, id < 256 ? 'h' : 'j'); /* BINGET, LONG_BINGET */
    put_number(w, id, id < 256 ? 1 : 4);
}

static void put_text(writer *w, const char *text)
{
    size_t n = strlen(text);
    for (unsigned i = 0; i < w->n_strings; i++) {
        if (strcmp(w->strings[i], text) == 0) {
            fetch(w, w->string_ids[i]);
            return;
        }
    }
    bool is_short = w->protocol >= 4 && n < 256;
    put_byte(w, is_short ? 0x8c : 'X'); /* SHORT_BINUNICODE, BINUNICODE */
    put_number(w, n, is_short ? 1 : 4);
    put(w, text, n);
    uint32_t id = memoize(w);
    if (w->n_strings < MOST_STRINGS) {
        w->strings[w->n_strings] = text;
        w->string_ids[w->n_strings++] = id;
    }
}

/* Encodes as CPython does: BININT1, BININT2, BININT, LONG1. */
static void put_integer(writer *w, int64_t number)
{
    if (number >= 0 && number < 256) {
        put_byte(w, 'K');
        put_number(w, (uint64_t)number, 1);
    } else if (number >= 0 && number < 65536) {
        put_byte(w, 'M');
        put_number(w, (uint64_t)number, 2);
    } else if (number >= INT32_MIN && number <= INT32_MAX) {
        put_byte(w, 'J');
        put_number(w, (uint64_t)number, 4);
    } else {
        unsigned n_bytes = 8;
        while (n_bytes > 1 && (number >> (8 * (n_bytes - 1) - 1) == 0 ||
                               number >> (8 * (n_bytes - 1) - 1) == -1)) {
            n_bytes--;
        }
        put_byte(w, 0x8a);
        put_byte(w, n_bytes);
        put_number(w, (uint64_t)number, n_bytes);
    }
}

static void put_bool(writer *w, bool is_true)
{
    put_byte(w, is_true ? 0x88 : 0x89);
}

static void begin_dict(writer *w)
{
    put_byte(w, '}');
    memoize(w);
    put_byte(w, '(');
}

static void end_dict(writer *w)
{
    put_byte(w, 'u'); /* SETITEMS */
}

static void begin_list(writer *w)
{
    put_byte(w, ']');
    memoize(w);
}

/* Call before item i of n: batches of 1,000, a single item with APPEND. */
static void before_item(writer *w, size_t i, size_t n)
{
    if (i % BATCH == 0 && n - i > 1) {
        put_byte(w, '(');
    }
}

static void after_item(writer *w, size_t i, size_t n)
{
    size_t first = i - i % BATCH;
    if (n - first == 1) {
        put_byte(w, 'a'); /* APPEND */
    } else if (i + 1 == n || i % BATCH == BATCH - 1) {
        put_byte(w, 'e'); /* APPENDS */
    }
}

static void put_key_integer(writer *w, const char *key, int64_t number)
{
    put_text(w, key);
    put_integer(w, number);
}

static void put_frame(writer *w, const char *name, const char *file, int64_t line)
{
    begin_dict(w);
    put_text(w, "name");
    put_text(w, name);
    put_text(w, "filename");
    put_text(w, file);
    put_key_integer(w, "line", line);
    end_dict(w);
}

static void put_frames(writer *w)
{
    put_text(w, "frames");
    if (w->has_frames) {
        fetch(w, w->frames_id);
        return;
    }
    put_byte(w, ']');
    w->frames_id = memoize(w);
    w->has_frames = true;
    put_byte(w, '(');
    put_frame(w, "forward", "model.py", 71);
    put_frame(w, "<module>", "train.py", 70000);
    put_byte(w, 'e');
}

static void put_pool_id(writer *w, int pool)
{
    put_integer(w, 0);
    put_integer(w, pool);
    put_byte(w, 0x86); /* TUPLE2 */
    memoize(w);
}

static void put_event(writer *w, const snap_plan *plan, const snap_event *event, size_t number)
{
    begin_dict(w);
    put_text(w, "action");
    put_text(w, event->action);
    put_key_integer(w, strcmp(event->action, "oom") == 0 ? "device_free" : "addr",
                    (int64_t)event->address);
    put_key_integer(w, "size", event->size);
    put_key_integer(w, "stream", (int64_t)event->stream);
    if (!plan->is_old) {
        put_key_integer(w, "time_us", 1748729097138624 + (int64_t)number);
        put_text(w, "compile_context");
        put_text(w, "N/A");
        put_text(w, "pool_id");
        put_pool_id(w, 0);
    }
    put_frames(w);
    end_dict(w);
}

static void put_trace(writer *w, const snap_plan *plan, const snap_event *events)
{
    size_t n = 0;
    while (events && events[n].action) {
        n++;
    }
    begin_list(w);
    for (size_t i = 0; i < n; i++) {
        before_item(w, i, n);
        put_event(w, plan, &events[i], i);
        after_item(w, i, n);
    }
}

static void put_block(writer *w, const snap_block *block, uint64_t address)
{
    begin_dict(w);
    put_key_integer(w, "address", (int64_t)address);
    put_key_integer(w, "size", (int64_t)block->size);
    put_key_integer(w, "requested_size", (int64_t)block->requested);
    put_text(w, "state");
    put_text(w, block->state);
    put_frames(w);
    end_dict(w);
}

static void put_segment(writer *w, const snap_segment *segment)
{
    size_t n = 0;
    uint64_t total = 0;
    for (; segment->blocks[n].state; n++) {
        total += segment->blocks[n].size;
    }
    begin_dict(w);
    put_key_integer(w, "device", segment->device);
    put_key_integer(w, "address", (int64_t)segment->address);
    put_key_integer(w, "total_size", (int64_t)total);
    put_key_integer(w, "stream", (int64_t)segment->stream);
    put_text(w, "segment_type");
    put_text(w, "large");
    put_text(w, "segment_pool_id");
    put_pool_id(w, segment->pool);
    put_text(w, "is_expandable");
    put_bool(w, segment->is_expandable);
    put_text(w, "blocks");
    begin_list(w);
    uint64_t address = segment->address;
    for (size_t i = 0; i < n; i++) {
        before_item(w, i, n);
        put_block(w, &segment->blocks[i], address);
        after_item(w, i, n);
        address += segment->blocks[i].size;
    }
    end_dict(w);
}

static void put_segments(writer *w, const snap_segment *segments)
{
    size_t n = 0;
    while (segments && segments[n].blocks) {
        n++;
    }
    begin_list(w);
    for (size_t i = 0; i < n; i++) {
        before_item(w, i, n);
        put_segment(w, &segments[i]);
        after_item(w, i, n);
    }
}

static void put_settings(writer *w, const snap_plan *plan)
{
    static const unsigned char half[9] = { 'G', 0x3f, 0xe0 }; /* BINFLOAT 0.5 */
    begin_dict(w);
    put_text(w, "PYTORCH_CUDA_ALLOC_CONF");
    put_text(w, plan->conf ? plan->conf : "");
    put_key_integer(w, "max_split_size", -1);
    put_text(w, "garbage_collection_threshold");
    put(w, half, sizeof half);
    if (!plan->lacks_setting) {
        put_text(w, "expandable_segments");
        put_bool(w, plan->is_expandable);
    }
    put_text(w, "last");
    put_byte(w, 'N'); /* NONE */
    end_dict(w);
}

static void put_all(writer *w, const snap_plan *plan)
{
    begin_dict(w);
    put_text(w, "segments");
    put_segments(w, plan->segments);
    put_text(w, "device_traces");
    begin_list(w);
    size_t n = (size_t)plan->n_devices;
    for (size_t i = 0; i < n; i++) {
        before_item(w, i, n);
        put_trace(w, plan, plan->events[i]);
        after_item(w, i, n);
    }
    if (!plan->is_old) {
        put_text(w, "allocator_settings");
        put_settings(w, plan);
        put_text(w, "external_annotations");
        begin_list(w);
    }
    end_dict(w);
    put_byte(w, '.');
}

size_t snap_write(const snap_plan *plan, unsigned char *out, size_t n)
{
    writer w = { .out = out, .n = n, .protocol = plan->protocol };
    put_byte(&w, 0x80);
    put_byte(&w, (unsigned)plan->protocol);
    size_t frame_at = w.at;
    if (plan->protocol >= 4) {
        put_byte(&w, 0x95); /* FRAME; one frame around everything */
        put_number(&w, 0, 8);
    }
    put_all(&w, plan);
    if (plan->protocol >= 4) {
        size_t end = w.at;
        w.at = frame_at + 1;
        put_number(&w, end - frame_at - 9, 8);
        w.at = end;
    }
    return w.at;
}
