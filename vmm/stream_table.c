/* stream_table.c - the streams that a device has seen.
 *
 * Upholds: one pl_stream per stream of the driver, for the life of the device; its index never
 * changes. Known streams are found without a lock: by a probe of the table, which is replaced,
 * never changed in place but for empty slots that fill up. A stale table costs a second look under
 * the lock. Additions are made under the device's lock; nothing here makes a driver call. */
#include "vmm/device_state.h"

enum { FIRST_TABLE_SLOTS = 64 };

/* ---- the table ------------------------------------------------------------------------------- */

static uint64_t id_of(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->id, memory_order_relaxed);
}

static size_t home_slot(const pl_stream_table *table, uint64_t id)
{
    return (size_t)(id * UINT64_C(0x9E3779B97F4A7C15) >> 32) & table->mask;
}

pl_stream *pl_stream_find(const pl_device *dev, uint64_t id)
{
    const pl_stream_table *table = atomic_load_explicit(&dev->streams.table, memory_order_acquire);
    if (table == NULL) {
        return NULL;
    }
    for (size_t at = home_slot(table, id);; at = (at + 1) & table->mask) {
        pl_stream *stream = atomic_load_explicit(&table->slots[at], memory_order_acquire);
        if (stream == NULL || id_of(stream) == id) {
            return stream;
        }
    }
}

static void put(pl_stream_table *table, pl_stream *stream)
{
    size_t at = home_slot(table, id_of(stream));
    while (atomic_load_explicit(&table->slots[at], memory_order_relaxed) != NULL) {
        at = (at + 1) & table->mask;
    }
    atomic_store_explicit(&table->slots[at], stream, memory_order_release);
}

/* A table with room for one more stream than there are, or NULL. */
static pl_stream_table *roomy_table_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_stream_table *old = atomic_load_explicit(&dev->streams.table, memory_order_relaxed);
    size_t n_streams = pl_stream_count(dev);
    if (old != NULL && (n_streams + 1) * 2 <= old->mask + 1) {
        return old;
    }
    size_t n_slots = old != NULL ? (old->mask + 1) * 2 : FIRST_TABLE_SLOTS;
    pl_stream_table *grown = pl_host_calloc(&dev->host, 1,
                                            sizeof(*grown) + n_slots * sizeof(grown->slots[0]));
    if (grown == NULL) {
        return NULL;
    }
    grown->older = old;
    grown->mask = n_slots - 1;
    for (size_t i = 0; old != NULL && i <= old->mask; i++) {
        pl_stream *stream = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (stream != NULL) {
            put(grown, stream);
        }
    }
    atomic_store_explicit(&dev->streams.table, grown, memory_order_release);
    return grown;
}

/* ---- the objects ----------------------------------------------------------------------------- */

/* Block and place of stream `index`: block b holds the 16 << b streams from 16 * (2^b - 1) on. */
static unsigned block_of(unsigned index, unsigned *place)
{
    unsigned block = 31u - (unsigned)__builtin_clz(index / PL_STREAM_FIRST_BLOCK + 1u);
    *place = index - PL_STREAM_FIRST_BLOCK * ((1u << block) - 1u);
    return block;
}

/* The memory of the next stream, or NULL; it counts once n_streams says so. */
static pl_stream *next_object_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    unsigned place;
    unsigned block = block_of(pl_stream_count(dev), &place);
    if (block >= PL_STREAM_BLOCKS) {
        return NULL;
    }
    pl_stream **objects = &dev->streams.blocks[block];
    if (*objects == NULL) {
        size_t count = (size_t)PL_STREAM_FIRST_BLOCK << block;
        *objects = pl_host_calloc(&dev->host, count, sizeof(**objects));
    }
    return *objects != NULL ? *objects + place : NULL;
}

/* The room for its slot was made when it was added. */
static void name_locked(pl_device *dev, pl_stream *stream, uint64_t id)
{
    pl_lock_assert(&dev->lock);
    dev->streams.n_unnamed--;
    atomic_store_explicit(&stream->id, id, memory_order_relaxed);
    put(atomic_load_explicit(&dev->streams.table, memory_order_relaxed), stream);
}

static pl_stream *known_locked(pl_device *dev, const pl_stream *like)
{
    pl_lock_assert(&dev->lock);
    if (like->kind == PL_STREAM_LEGACY) {
        return atomic_load_explicit(&dev->streams.legacy, memory_order_relaxed);
    }
    if (id_of(like) == PL_STREAM_UNNAMED) {
        return pl_stream_newest(dev, like->handle);
    }
    pl_stream *known = pl_stream_find(dev, id_of(like));
    if (known == NULL && like->kind == PL_STREAM_ORDINARY && dev->streams.n_unnamed > 0) {
        known = pl_stream_newest(dev, like->handle);
        known = known != NULL && id_of(known) == PL_STREAM_UNNAMED ? known : NULL;
        if (known != NULL) {
            name_locked(dev, known, id_of(like));
        }
    }
    return known;
}

static pleat_status add_locked(pl_device *dev, const pl_stream *like, pl_stream **out)
{
    pl_lock_assert(&dev->lock);
    pl_stream_table *table = roomy_table_locked(dev);
    pl_stream *stream = next_object_locked(dev);
    if (table == NULL || stream == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    *stream = *like;
    stream->dev = dev;
    stream->index = pl_stream_count(dev);
    if (like->kind == PL_STREAM_LEGACY) {
        atomic_store_explicit(&dev->streams.legacy, stream, memory_order_release);
    } else if (id_of(like) == PL_STREAM_UNNAMED) {
        dev->streams.n_unnamed++;
    } else {
        put(table, stream);
    }
    atomic_store_explicit(&dev->streams.n_streams, stream->index + 1, memory_order_release);
    *out = stream;
    return PLEAT_OK;
}

pleat_status pl_stream_add(pl_device *dev, const pl_stream *like, pl_stream **out)
{
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&dev->lock);
    pl_stream *known = known_locked(dev, like);
    if (known != NULL) {
        *out = known;
    } else {
        st = add_locked(dev, like, out);
    }
    pl_lock_release(&dev->lock);
    return st;
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

pl_stream *pl_stream_newest(const pl_device *dev, cu_stream handle)
{
    for (unsigned i = pl_stream_count(dev); i > 0; i--) {
        pl_stream *stream = pl_stream_at(dev, i - 1);
        if (stream->kind == PL_STREAM_ORDINARY && stream->handle == handle) {
            return atomic_load_explicit(&stream->is_gone, memory_order_relaxed) ? NULL : stream;
        }
    }
    return NULL;
}

void pl_streams_fini(pl_device *dev)
{
    pl_stream_table *table = atomic_load_explicit(&dev->streams.table, memory_order_relaxed);
    while (table != NULL) {
        pl_stream_table *older = table->older;
        pl_host_free(&dev->host, table);
        table = older;
    }
    for (unsigned block = 0; block < PL_STREAM_BLOCKS; block++) {
        pl_host_free(&dev->host, dev->streams.blocks[block]);
    }
}
