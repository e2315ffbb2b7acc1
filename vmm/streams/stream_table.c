/* stream_table.c - the streams that a device knows.
 *
 * Upholds: one pl_stream per stream of the driver, from first sight until release, with a constant
 * index. Known streams are found without a lock, by a probe of a table; a stale table costs a
 * second look under the lock. A thread that finds a stream counts itself in, then checks whether
 * the stream is leaving. A thread that gives a stream up marks the stream as leaving, then checks
 * for holders. So at least the finder or the releaser gives way. Everything is written under
 * the device's lock. No driver calls. */
#include "vmm/device_state.h"

enum { FIRST_TABLE_SLOTS = 64 };

/* ---- the tables ------------------------------------------------------------------------------ */

/* Marks the slot of a stream that has left. */
static pl_stream grave;

static uint64_t id_of(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->id, memory_order_relaxed);
}

static size_t home_slot(const pl_stream_table *table, uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & table->mask;
}

/* Stops after one round, since the table may be refilled meanwhile. */
static pl_stream *look_up(const pl_device *dev, int by, uint64_t key)
{
    const pl_stream_table *table = atomic_load_explicit(&dev->streams.tables[by],
                                                        memory_order_acquire);
    size_t at = table != NULL ? home_slot(table, key) : 0;
    for (size_t n = table != NULL ? table->mask + 1 : 0; n > 0; n--) {
        pl_stream *stream = atomic_load_explicit(&table->slots[at], memory_order_acquire);
        if (stream == NULL) {
            return NULL;
        }
        if (stream != &grave && pl_stream_key(stream, by) == key) {
            return stream;
        }
        at = (at + 1) & table->mask;
    }
    return NULL;
}

pl_stream *pl_stream_find(const pl_device *dev, uint64_t id)
{
    return look_up(dev, PL_STREAM_BY_ID, id);
}

pl_stream *pl_stream_newest(const pl_device *dev, cu_stream handle)
{
    pl_stream *stream = look_up(dev, PL_STREAM_BY_HANDLE, (uintptr_t)handle);
    bool is_gone = stream != NULL && atomic_load_explicit(&stream->is_gone, memory_order_relaxed);
    return is_gone ? NULL : stream;
}

void pl_stream_put(pl_stream *stream)
{
    if (stream->kind == PL_STREAM_ORDINARY) {
        atomic_fetch_sub(&stream->n_holders, 1);
    }
}

static void put(pl_stream_table *table, pl_stream *stream, int by)
{
    size_t at = home_slot(table, pl_stream_key(stream, by));
    while (atomic_load_explicit(&table->slots[at], memory_order_relaxed) != NULL) {
        at = (at + 1) & table->mask;
    }
    atomic_store_explicit(&table->slots[at], stream, memory_order_release);
    stream->is_listed_by[by] = true;
    table->n_used++;
    table->n_listed++;
}

static void fill_locked(pl_device *dev, pl_stream_table *table, int by)
{
    pl_lock_assert(&dev->lock);
    table->n_used = 0;
    table->n_listed = 0;
    for (unsigned i = 0; i < pl_stream_count(dev); i++) {
        pl_stream *stream = pl_stream_at(dev, i);
        if (stream->is_listed_by[by]) {
            put(table, stream, by);
        }
    }
}

/* Makes room for one more stream, and for the future ids of unnamed streams, whose insertion must
 * not fail. Clears graves away, or grows the table. */
static pleat_status reserve_locked(pl_device *dev, int by)
{
    pl_lock_assert(&dev->lock);
    pl_stream_table *old = atomic_load_explicit(&dev->streams.tables[by], memory_order_relaxed);
    size_t n_more = 1 + (by == PL_STREAM_BY_ID ? dev->streams.n_unnamed : 0);
    if (old != NULL && (old->n_used + n_more) * 2 <= old->mask + 1) {
        return PLEAT_OK;
    }
    if (old != NULL && (old->n_listed + n_more) * 4 <= old->mask + 1) {
        for (size_t i = 0; i <= old->mask; i++) {
            atomic_store_explicit(&old->slots[i], NULL, memory_order_relaxed);
        }
        fill_locked(dev, old, by);
        return PLEAT_OK;
    }
    size_t n_slots = old != NULL ? (old->mask + 1) * 2 : FIRST_TABLE_SLOTS;
    pl_stream_table *grown = pl_meta_calloc(&dev->meta, 1,
                                            sizeof(*grown) + n_slots * sizeof(grown->slots[0]));
    if (grown == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    grown->older = old;
    grown->mask = n_slots - 1;
    fill_locked(dev, grown, by);
    atomic_store_explicit(&dev->streams.tables[by], grown, memory_order_release);
    return PLEAT_OK;
}

/* Needs the room that reserve_locked made. */
static void list_locked(pl_device *dev, pl_stream *stream, int by)
{
    pl_lock_assert(&dev->lock);
    put(atomic_load_explicit(&dev->streams.tables[by], memory_order_relaxed), stream, by);
}

static void unlist_locked(pl_device *dev, pl_stream *stream, int by)
{
    pl_lock_assert(&dev->lock);
    if (!stream->is_listed_by[by]) {
        return;
    }
    pl_stream_table *table = atomic_load_explicit(&dev->streams.tables[by], memory_order_relaxed);
    size_t at = home_slot(table, pl_stream_key(stream, by));
    while (atomic_load_explicit(&table->slots[at], memory_order_relaxed) != stream) {
        at = (at + 1) & table->mask;
    }
    atomic_store_explicit(&table->slots[at], &grave, memory_order_release);
    stream->is_listed_by[by] = false;
    table->n_listed--;
}

/* ---- the objects ----------------------------------------------------------------------------- */

/* Block and place of stream `index`: block b holds the 16 << b streams from 16 * (2^b - 1) on. */
static unsigned block_of(unsigned index, unsigned *place)
{
    unsigned block = 31u - (unsigned)__builtin_clz(index / PL_STREAM_FIRST_BLOCK + 1u);
    *place = index - PL_STREAM_FIRST_BLOCK * ((1u << block) - 1u);
    return block;
}

/* The memory for the next stream, or NULL; a new object counts once n_streams says so. */
static pl_stream *next_object_locked(pl_device *dev, unsigned *index)
{
    pl_lock_assert(&dev->lock);
    if (dev->streams.free != NULL) {
        *index = dev->streams.free->index;
        return dev->streams.free;
    }
    unsigned place;
    *index = pl_stream_count(dev);
    unsigned block = block_of(*index, &place);
    if (block >= PL_STREAM_BLOCKS) {
        return NULL;
    }
    pl_stream **objects = &dev->streams.blocks[block];
    if (*objects == NULL) {
        size_t count = (size_t)PL_STREAM_FIRST_BLOCK << block;
        *objects = pl_meta_calloc(&dev->meta, count, sizeof(**objects));
    }
    return *objects != NULL ? *objects + place : NULL;
}

static void write_locked(pl_device *dev, pl_stream *stream, const pl_stream *like, unsigned index)
{
    pl_lock_assert(&dev->lock);
    if (stream == dev->streams.free) {
        dev->streams.free = stream->next_free;
    }
    stream->dev = dev;
    atomic_store_explicit(&stream->context, pl_stream_context(like), memory_order_relaxed);
    atomic_store_explicit(&stream->handle,
                          atomic_load_explicit(&like->handle, memory_order_relaxed),
                          memory_order_relaxed);
    stream->given = like->given;
    atomic_store_explicit(&stream->id, id_of(like), memory_order_relaxed);
    atomic_store_explicit(&stream->is_gone, false, memory_order_relaxed);
    atomic_store_explicit(&stream->is_doubted, false, memory_order_relaxed);
    atomic_store_explicit(&stream->is_blurred, false, memory_order_relaxed);
    atomic_store_explicit(&stream->thread_number, 0, memory_order_relaxed);
    pl_stream_note_rest(stream, pl_stream_n_captured(stream));
    stream->thread = like->thread;
    stream->index = index;
    stream->kind = like->kind;
    stream->is_free = false;
    stream->next_free = NULL;
    atomic_store(&stream->is_leaving, false); /* after handle and id: see pl_stream_hold */
    if (stream->thread != NULL) {
        pl_thread_life_hold(stream->thread);
    }
}

/* Its slot was reserved when the stream was added. */
static void name_locked(pl_device *dev, pl_stream *stream, const pl_stream *like)
{
    pl_lock_assert(&dev->lock);
    dev->streams.n_unnamed--;
    atomic_store_explicit(&stream->context, pl_stream_context(like), memory_order_relaxed);
    atomic_store_explicit(&stream->id, id_of(like), memory_order_relaxed);
    list_locked(dev, stream, PL_STREAM_BY_ID);
}

/* The known stream that is like `like`, perhaps without an id until now, or NULL. */
static pl_stream *known_locked(pl_device *dev, const pl_stream *like)
{
    pl_lock_assert(&dev->lock);
    if (like->kind == PL_STREAM_LEGACY) {
        return dev->streams.kept_legacy;
    }
    if (id_of(like) == PL_STREAM_UNNAMED) {
        return pl_stream_newest(dev, like->handle);
    }
    pl_stream *known = pl_stream_find(dev, id_of(like));
    if (known != NULL || like->kind != PL_STREAM_ORDINARY || dev->streams.n_unnamed == 0) {
        return known;
    }
    pl_stream *newest = pl_stream_newest(dev, like->handle);
    if (newest == NULL || id_of(newest) != PL_STREAM_UNNAMED ||
        atomic_load_explicit(&newest->is_blurred, memory_order_relaxed)) {
        return NULL;
    }
    name_locked(dev, newest, like);
    return newest;
}

/* The previous stream with the handle of `stream` is gone: no two live streams share a handle. */
static void succeed_locked(pl_device *dev, pl_stream *stream)
{
    pl_lock_assert(&dev->lock);
    pl_stream *before = look_up(dev, PL_STREAM_BY_HANDLE,
                                pl_stream_key(stream, PL_STREAM_BY_HANDLE));
    if (before != NULL) {
        atomic_store_explicit(&before->is_gone, true, memory_order_relaxed);
        unlist_locked(dev, before, PL_STREAM_BY_HANDLE);
    }
    list_locked(dev, stream, PL_STREAM_BY_HANDLE);
}

static pleat_status add_locked(pl_device *dev, const pl_stream *like, pl_stream **out)
{
    pl_lock_assert(&dev->lock);
    unsigned index;
    pl_stream *stream = next_object_locked(dev, &index);
    if (stream == NULL || reserve_locked(dev, PL_STREAM_BY_ID) != PLEAT_OK ||
        reserve_locked(dev, PL_STREAM_BY_HANDLE) != PLEAT_OK) {
        return PLEAT_ENOMEM_HOST;
    }
    write_locked(dev, stream, like, index);
    if (index == pl_stream_count(dev)) {
        atomic_store_explicit(&dev->streams.n_streams, index + 1, memory_order_release);
    }
    if (like->kind == PL_STREAM_LEGACY) {
        dev->streams.kept_legacy = stream;
        if (!pl_green_is_asked_about(dev)) {
            atomic_store_explicit(&dev->streams.legacy, stream, memory_order_release);
        }
    } else if (id_of(like) == PL_STREAM_UNNAMED) {
        dev->streams.n_unnamed++;
    } else {
        list_locked(dev, stream, PL_STREAM_BY_ID);
    }
    if (like->kind == PL_STREAM_ORDINARY) {
        succeed_locked(dev, stream);
    }
    *out = stream;
    return PLEAT_OK;
}

pleat_status pl_stream_add(pl_device *dev, const pl_stream *like, pl_stream **out)
{
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&dev->lock);
    pl_stream *known = known_locked(dev, like);
    if (known == NULL) {
        st = add_locked(dev, like, &known);
    }
    if (st == PLEAT_OK && like->kind == PL_STREAM_ORDINARY) {
        atomic_fetch_add(&known->n_holders, 1);
    }
    pl_lock_release(&dev->lock);
    if (st == PLEAT_OK) {
        *out = known;
    }
    return st;
}

static void unlist_all_locked(pl_device *dev, pl_stream *stream)
{
    pl_lock_assert(&dev->lock);
    for (int by = 0; by < PL_STREAM_N_KEYS; by++) {
        unlist_locked(dev, stream, by);
    }
}

void pl_stream_forget(pl_stream *stream)
{
    pl_device *dev = stream->dev;
    pl_lock_acquire(&dev->lock);
    atomic_store_explicit(&stream->is_gone, true, memory_order_relaxed);
    unlist_all_locked(dev, stream);
    pl_lock_release(&dev->lock);
}

static void release_locked(pl_device *dev, pl_stream *stream)
{
    pl_lock_assert(&dev->lock);
    atomic_store(&stream->is_leaving, true);
    unlist_all_locked(dev, stream);
    dev->streams.n_unnamed -= id_of(stream) == PL_STREAM_UNNAMED;
    pl_thread_life_drop(stream->thread);
    stream->thread = NULL;
    stream->is_free = true;
    stream->next_free = dev->streams.free;
    dev->streams.free = stream;
}

void pl_stream_release(pl_stream *stream)
{
    pl_device *dev = stream->dev;
    pl_lock_acquire(&dev->lock);
    release_locked(dev, stream);
    pl_lock_release(&dev->lock);
}

bool pl_stream_try_release(pl_stream *stream)
{
    pl_device *dev = stream->dev;
    pl_lock_acquire(&dev->lock);
    bool is_known = stream->kind == PL_STREAM_ORDINARY && id_of(stream) != PL_STREAM_UNNAMED;
    atomic_store(&stream->is_leaving, true);
    bool is_last = is_known && atomic_load(&stream->n_holders) == 0;
    if (is_last) {
        release_locked(dev, stream);
    } else {
        atomic_store(&stream->is_leaving, false);
    }
    pl_lock_release(&dev->lock);
    return is_last;
}

bool pl_stream_is_gone(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->is_gone, memory_order_relaxed) ||
           (stream->thread != NULL && pl_thread_life_is_over(stream->thread));
}

unsigned pl_stream_count(const pl_device *dev)
{
    return atomic_load_explicit(&dev->streams.n_streams, memory_order_acquire);
}

pl_stream *pl_stream_at(const pl_device *dev, unsigned index)
{
    if (index >= pl_stream_count(dev)) {
        return NULL;
    }
    unsigned place;
    unsigned block = block_of(index, &place);
    return dev->streams.blocks[block] + place;
}

void pl_streams_fini(pl_device *dev)
{
    for (unsigned i = 0; i < pl_stream_count(dev); i++) {
        pl_thread_life_drop(pl_stream_at(dev, i)->thread);
    }
    for (int by = 0; by < PL_STREAM_N_KEYS; by++) {
        pl_stream_table *table = atomic_load_explicit(&dev->streams.tables[by],
                                                      memory_order_relaxed);
        while (table != NULL) {
            pl_stream_table *older = table->older;
            pl_meta_free(&dev->meta, table);
            table = older;
        }
    }
    for (unsigned block = 0; block < PL_STREAM_BLOCKS; block++) {
        pl_meta_free(&dev->meta, dev->streams.blocks[block]);
    }
}
