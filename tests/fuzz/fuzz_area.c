/* fuzz_area.c - see fuzz_area.h. */
#include "tests/fuzz/fuzz_area.h"

#include <string.h>
#include <unistd.h>

#include "api/pleat_buffer.h"
#include "api/pleat_share.h"
#include "api/pleat_tag.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_PAGES = 64, MOST_FDS = 64, NAME_BYTES = 104 + 24 * MOST_FDS };

typedef struct buffer {
    pleat_devptr ptr; /* 0 = there is none */
    uint64_t most_bytes;
    uint64_t bytes;
    uint64_t page_bytes;
    unsigned n_pages;
    bool has[MOST_PAGES]; /* memory */
    unsigned last;        /* slot of the last stream that used or changed the buffer */
    uint32_t last_life;
} buffer;

static buffer buffers[FUZZ_BUFFERS];

static const char *const tags[FUZZ_TAGS] = { "weights", "cache" };

void fuzz_area_open(void)
{
    memset(buffers, 0, sizeof buffers);
    for (unsigned i = 0; i < FUZZ_TAGS; i++) { /* the process knows them from now on */
        fuzz_check(pleat_tag_push(tags[i]) == PLEAT_OK && pleat_tag_pop() == PLEAT_OK, "no scope");
    }
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* If the last user is gone, its work is ordered before the legacy stream's work. */
static bool order_after(buffer *b, unsigned slot)
{
    const fuzz_stream *s = &world.streams[b->last];
    unsigned last = s->is_live && s->life == b->last_life ? b->last : 0;
    if (world.is_capturing || !fuzz_order(slot, last)) {
        return false;
    }
    b->last = slot;
    b->last_life = world.streams[slot].life;
    return true;
}

static void check_pages(const buffer *b)
{
    pleat_buffer_info info;
    uint64_t n = 0;
    for (unsigned i = 0; i < b->n_pages; i++) {
        n += b->has[i];
    }
    pleat_status st = pleat_buffer_query(world.instance, 0, b->ptr, &info);
    fuzz_end_call("buffer_query", st, FUZZ_BIT(PLEAT_OK));
    fuzz_check(info.bytes == b->bytes && info.committed_bytes == n * b->page_bytes,
               "a buffer of %llu bytes with %llu pages is told as %llu with %llu bytes",
               (unsigned long long)b->bytes, (unsigned long long)n, (unsigned long long)info.bytes,
               (unsigned long long)info.committed_bytes);
}

static void destroy(buffer *b, unsigned slot)
{
    fuzz_begin_call();
    pleat_status st = pleat_buffer_destroy(world.instance, 0, b->ptr, world.streams[slot].handle);
    fuzz_end_call("buffer_destroy", st, FUZZ_BIT(PLEAT_OK));
    b->ptr = st == PLEAT_OK ? 0 : b->ptr;
}

static void create(buffer *b, unsigned n_pages, bool is_paged)
{
    pleat_buffer_info info;
    uint64_t unit = UINT64_C(64) << 10;
    *b = (buffer){ .ptr = 0 };
    fuzz_begin_call();
    pleat_status st = pleat_buffer_create(world.instance, 0, n_pages * unit, is_paged ? unit : 0,
                                          &b->ptr);
    fuzz_end_call("buffer_create", st, FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_ENOSPACE_VA));
    if (st != PLEAT_OK) {
        b->ptr = 0;
        return;
    }
    st = pleat_buffer_query(world.instance, 0, b->ptr, &info);
    fuzz_end_call("buffer_query", st, FUZZ_BIT(PLEAT_OK));
    b->most_bytes = info.most_bytes;
    b->page_bytes = info.page_bytes;
    b->n_pages = (unsigned)(info.most_bytes / info.page_bytes);
    if (b->n_pages > MOST_PAGES) {
        destroy(b, 0);
    }
}

void fuzz_change_buffer(unsigned number, unsigned n_pages, bool is_paged, unsigned slot)
{
    buffer *b = &buffers[number];
    if (b->ptr == 0) {
        create(b, n_pages % MOST_PAGES + 1, is_paged);
    } else if (order_after(b, slot)) {
        destroy(b, slot);
    }
}

static unsigned pages_of(const buffer *b, uint64_t bytes)
{
    return (unsigned)((bytes + b->page_bytes - 1) / b->page_bytes);
}

enum { SHORTAGES = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_ENOMEM_DEVICE) | FUZZ_BIT(PLEAT_EPENDING) };

void fuzz_resize_buffer(unsigned number, unsigned n_quarters, unsigned slot)
{
    buffer *b = &buffers[number];
    if (b->ptr == 0 || !order_after(b, slot)) {
        return;
    }
    uint64_t bytes = n_quarters * (b->page_bytes / 4);
    uint32_t allowed = bytes > b->most_bytes ? FUZZ_BIT(PLEAT_EINVAL) : SHORTAGES;
    fuzz_say("buffer %u: resize to %llu on stream %u", number, (unsigned long long)bytes, slot);
    fuzz_begin_call();
    pleat_status st = pleat_buffer_resize(world.instance, 0, b->ptr, bytes,
                                          world.streams[slot].handle);
    fuzz_end_call("buffer_resize", st, allowed);
    if (st == PLEAT_OK) {
        for (unsigned i = 0; i < b->n_pages; i++) {
            bool is_new = i >= pages_of(b, b->bytes);
            b->has[i] = i < pages_of(b, bytes) && (is_new || b->has[i]);
        }
        b->bytes = bytes;
    }
    check_pages(b);
}

void fuzz_commit_buffer(unsigned number, unsigned from, unsigned n, bool is_commit, unsigned slot)
{
    buffer *b = &buffers[number];
    if (b->ptr == 0 || !order_after(b, slot)) {
        return;
    }
    from %= b->n_pages;
    n = n % (b->n_pages - from) + 1;
    uint64_t offset = from * b->page_bytes;
    uint64_t bytes = n * b->page_bytes;
    void *stream = world.streams[slot].handle;
    fuzz_say("buffer %u: %s [%u, %u) on stream %u", number, is_commit ? "commit" : "decommit", from,
             from + n, slot);
    fuzz_begin_call();
    pleat_status st = is_commit
                          ? pleat_buffer_commit(world.instance, 0, b->ptr, offset, bytes, stream)
                          : pleat_buffer_decommit(world.instance, 0, b->ptr, offset, bytes, stream);
    fuzz_end_call("buffer_commit", st, is_commit ? SHORTAGES : FUZZ_BIT(PLEAT_OK));
    for (unsigned i = from; i < from + n && st == PLEAT_OK; i++) {
        b->has[i] = is_commit;
    }
    if (st == PLEAT_OK && is_commit && b->bytes < offset + bytes) {
        b->bytes = offset + bytes;
    }
    check_pages(b);
}

void fuzz_use_buffer(unsigned number, unsigned page, unsigned slot)
{
    buffer *b = &buffers[number];
    if (b->ptr == 0 || !b->has[page % b->n_pages] || !order_after(b, slot)) {
        return;
    }
    fuzz_begin_call();
    pleat_status st = pleat_buffer_record_stream(world.instance, 0, b->ptr,
                                                 world.streams[slot].handle);
    fuzz_end_call("buffer_record_stream", st, FUZZ_BIT(PLEAT_OK));
    if (st == PLEAT_OK) {
        fuzz_touch(b->ptr + page % b->n_pages * b->page_bytes, b->page_bytes, slot, 0);
    }
}

void fuzz_area_close(void)
{
    world.fault.is_armed = false;
    for (unsigned i = 0; i < FUZZ_BUFFERS; i++) {
        buffer *b = &buffers[i];
        if (b->ptr != 0) {
            fuzz_check(order_after(b, 0), "a buffer that cannot be destroyed");
            destroy(b, 0);
        }
    }
}

/* ---- tags ------------------------------------------------------------------------------------ */

void fuzz_alloc_tagged(unsigned index, size_t bytes, unsigned slot, unsigned tag)
{
    if (world.is_capturing || fuzz_is_routed(slot)) {
        return;
    }
    fuzz_check(pleat_tag_push(tags[tag]) == PLEAT_OK, "no scope");
    world.tag = tag + 1;
    bool is_had = fuzz_alloc(index, bytes, slot, FUZZ_NO_DOMAIN);
    world.tag = 0;
    fuzz_check(pleat_tag_pop() == PLEAT_OK, "no end of a scope");
    if (is_had) {
        (void)fuzz_use(index, slot, true);
    }
}

static void note_sleep(unsigned tag, bool is_lost)
{
    pleat_tag_info figures;
    pleat_status st = pleat_tag_query(world.instance, 0, tags[tag], &figures);
    fuzz_end_call("tag_stats", st, FUZZ_BIT(PLEAT_OK));
    world.asleep = (world.asleep & ~(1u << (tag + 1))) | (unsigned)figures.is_asleep << (tag + 1);
    for (unsigned i = 0; i < FUZZ_BLOCKS && is_lost && figures.is_asleep; i++) {
        world.blocks[i].seed = world.blocks[i].tag == tag + 1 ? 0 : world.blocks[i].seed;
    }
}

void fuzz_sleep(unsigned tag, bool is_kept)
{
    if (world.is_capturing) {
        return;
    }
    bool is_asleep = (world.asleep >> (tag + 1) & 1) != 0;
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_ECAPTURE); /* the capture may go on */
    allowed = is_asleep ? FUZZ_BIT(PLEAT_EASLEEP) : allowed;
    fuzz_begin_call();
    pleat_status st = pleat_tag_sleep(world.instance, 0, tags[tag],
                                      is_kept ? PLEAT_SLEEP_HOST : PLEAT_SLEEP_DISCARD, NULL, NULL);
    fuzz_end_call("tag_sleep", st, allowed);
    if (!is_asleep) {
        note_sleep(tag, !is_kept);
    }
}

void fuzz_wake(unsigned tag, uint64_t most_bytes)
{
    fuzz_begin_call();
    pleat_status st = pleat_tag_wake(world.instance, 0, tags[tag], most_bytes, NULL);
    fuzz_end_call("tag_wake", st, SHORTAGES);
    note_sleep(tag, false);
}

void fuzz_limit_tag(unsigned tag, uint64_t bytes)
{
    fuzz_begin_call();
    pleat_status st = pleat_tag_set_limit(world.instance, 0, tags[tag], bytes);
    fuzz_end_call("tag_set_limit", st, FUZZ_BIT(PLEAT_OK));
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* Open the name, and check the memory on this stream, behind the block's last use. */
static void open_and_look(const fuzz_block *b, const void *name, size_t name_bytes, const int *fds,
                          size_t n, unsigned slot)
{
    pleat_devptr alias = 0;
    fuzz_begin_call();
    pleat_status st = pleat_share_open_fds(world.instance, 0, name, name_bytes, fds, n, &alias);
    fuzz_end_call("share_open_fds", st, FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_ENOSPACE_VA));
    if (st != PLEAT_OK) {
        return;
    }
    if (fuzz_is_readable(b)) {
        fuzz_touch(alias, b->bytes, slot, b->seed);
    }
    st = pleat_share_close(world.instance, 0, alias, world.streams[slot].handle);
    fuzz_end_call("share_close", st, FUZZ_BIT(PLEAT_OK));
}

void fuzz_share(unsigned index, unsigned slot)
{
    char name[NAME_BYTES];
    int fds[MOST_FDS];
    size_t needed = 0;
    const fuzz_block *b = &world.blocks[index];
    if (world.is_capturing || !fuzz_use(index, slot, false)) {
        return;
    }
    pleat_status st = pleat_share_export(world.instance, 0, b->ptr, 0, name, sizeof name, &needed);
    fuzz_end_call("share_export", st, FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_ENOTSUP));
    size_t n = st == PLEAT_OK && needed <= sizeof name ? pleat_share_n_fds(name, needed) : 0;
    if (n == 0 || n > MOST_FDS) {
        return;
    }
    fuzz_begin_call();
    st = pleat_share_fds(world.instance, name, needed, fds, n);
    fuzz_end_call("share_fds", st, FUZZ_BIT(PLEAT_OK));
    if (st != PLEAT_OK) {
        return;
    }
    open_and_look(b, name, needed, fds, n, slot);
    for (size_t i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
}
