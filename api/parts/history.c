/* history.c - the ring of one device, and the names of its private pools.
 *
 * Telling is the hot part: it takes a lock, reads the clock, and writes an entry. The clock is read
 * under the lock, so times are in the order of entries unless the system's clock is set back.
 *
 * A ring is made in advance and put in place in one step. The old ring is freed under the lock,
 * since the lock guards the host memory. */
#include "api/parts/history.h"

#include <string.h>
#include <time.h>

#include "vmm/base/assert.h"
#include "vmm/driver.h"
#include "vmm/streams/stream.h"

struct pl_history_ring {
    size_t capacity; /* const */
    size_t n_held;   /* lock */
    size_t next;     /* lock: index of the next entry */
    pl_history_entry at[];
};

/* ---- telling ---- */

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

static void put_locked(pl_history *history, const pl_history_entry *entry)
{
    pl_history_ring *ring = history->ring;
    pl_lock_assert(&history->lock);
    ring->at[ring->next] = *entry;
    ring->next = ring->next + 1 < ring->capacity ? ring->next + 1 : 0;
    ring->n_held += ring->n_held < ring->capacity;
}

/* A pool that lives, and the index of its name. */
typedef struct live_pool {
    pl_tree_node node; /* in pl_history.live_pools */
    uintptr_t private_in;
    unsigned index;
} live_pool;

static live_pool *entry(const pl_tree_node *node)
{
    return node ? PL_TREE_ENTRY(node, live_pool, node) : NULL;
}

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    return entry(a)->private_in < entry(b)->private_in;
}

static live_pool *find_locked(const pl_history *history, const void *private_in)
{
    live_pool key = { .private_in = (uintptr_t)private_in };
    live_pool *found = entry(pl_tree_floor(&history->live_pools, &key.node));
    return found && found->private_in == key.private_in ? found : NULL;
}

static unsigned pool_index_locked(const pl_history *history, const void *private_in)
{
    const live_pool *found = find_locked(history, private_in);
    return found ? found->index : 0;
}

static void record_locked(pl_history *history, unsigned action, const pl_event *event, void *handle,
                          unsigned pool)
{
    pl_history_entry entry = {
        .base = event->base,
        .bytes = event->bytes,
        .time_us = now_us(),
        .stream = handle,
        .frames = pl_stacks_name(&history->stacks, &history->meta),
        .pool = (uint16_t)pool,
        .action = (uint16_t)action,
    };
    put_locked(history, &entry);
}

static void tell_watcher_locked(pl_history *history, unsigned action, const pl_event *event,
                                void *handle, unsigned pool)
{
    pleat_change change = {
        .kind = (pleat_change_kind)action,
        .device = history->device,
        .base = event->base,
        .bytes = event->bytes,
        .stream = handle,
    };
    if (pool > 0) {
        change.pool = history->pools[pool - 1].id;
    }
    history->watch(&change, history->watch_context);
}

static void tell_driver(const pl_history *history, unsigned action, const pl_event *event,
                        void *handle)
{
    static const pl_told told[] = {
        [PL_ACTION_ALLOC] = PL_TOLD_BLOCK,
        [PL_ACTION_FREE_REQUESTED] = PL_TOLD_FREE,
        [PL_ACTION_FREE_COMPLETED] = PL_TOLD_REUSE,
    };
    if (history->tell_driver && action <= PL_ACTION_FREE_COMPLETED) {
        uint64_t bytes = action == PL_ACTION_ALLOC ? event->bytes
                                                   : action == PL_ACTION_FREE_COMPLETED;
        (void)history->tell_driver(told[action], handle, event->base, bytes, 0);
    }
}

static void tell(pl_history *history, unsigned action, const pl_event *event, void *handle)
{
    pl_lock_acquire(&history->lock);
    tell_driver(history, action, event, handle);
    if (atomic_load_explicit(
            &history->is_followed,
            memory_order_relaxed)) { /* it may have stopped since the caller looked */
        unsigned pool = pool_index_locked(history, event->private_in);
        uint64_t n_told = atomic_load_explicit(&history->n_told, memory_order_relaxed);
        if (history->is_recording) {
            record_locked(history, action, event, handle, pool);
        }
        if (history->watch && action != PL_HISTORY_SNAPSHOT) {
            tell_watcher_locked(history, action, event, handle, pool);
        }
        atomic_store_explicit(&history->n_told, n_told + 1, memory_order_release);
    }
    pl_lock_release(&history->lock);
}

static void tell_event(pl_observer *observer, const pl_event *event)
{
    void *handle = event->stream ? pl_stream_handle(event->stream) : NULL;
    tell((pl_history *)observer, event->action, event, handle);
}

/* Stands in for tell_event where a tool listens, so that nobody else pays for the question. */
static void tell_tool_and_event(pl_observer *observer, const pl_event *event)
{
    pl_history *history = (pl_history *)observer;
    pl_lock_acquire(&history->lock);
    unsigned pool = pool_index_locked(history, event->private_in);
    pl_nvtx_tell(history->nvtx, event,
                 pool > 0 ? history->pools[pool - 1].id : (pleat_pool_id){ 0, 0 });
    pl_lock_release(&history->lock);
    tell_event(observer, event);
}

void pl_history_tell_oom(pl_history *history, uint64_t bytes, uint64_t device_free, void *stream,
                         const void *private_in)
{
    if (pl_observer_is_on(&history->observer)) {
        pl_event event = { .base = device_free, .bytes = bytes, .private_in = private_in };
        tell(history, PL_HISTORY_OOM, &event, stream);
    }
}

void pl_history_tell_snapshot(pl_history *history, uint64_t active_bytes)
{
    if (pl_observer_is_on(&history->observer)) {
        pl_event event = { .bytes = active_bytes };
        tell(history, PL_HISTORY_SNAPSHOT, &event, NULL);
    }
}

void pl_history_tell_looked_at(pl_history *history)
{
    const pl_event event = { .private_in = NULL };
    pl_lock_acquire(&history->lock);
    if (history->watch) {
        tell_watcher_locked(history, PL_HISTORY_SNAPSHOT, &event, NULL, 0);
    }
    pl_lock_release(&history->lock);
}

/* ---- life ---- */

void pl_history_init(pl_history *history, int device)
{
    *history = (pl_history){ .observer = { .tell = tell_event }, .device = device };
    pl_tree_init(&history->live_pools, is_before);
    pl_lock_init(&history->lock, PL_RANK_HISTORY);
}

void pl_history_fini(pl_history *history)
{
    pl_history_leave_tool(history);
    pl_meta_free(&history->meta, history->ring);
    pl_meta_free(&history->meta, history->pools);
    for (live_pool *pool; (pool = entry(pl_tree_first(&history->live_pools))) != NULL;) {
        pl_tree_remove(&history->live_pools, &pool->node);
        pl_meta_free(&history->meta, pool);
    }
    pl_stacks_fini(&history->stacks, &history->meta);
    size_t held_bytes = pl_meta_fini(&history->meta);
    pl_assert(held_bytes == 0);
    (void)held_bytes;
    pl_lock_fini(&history->lock);
}

size_t pl_history_host_bytes(pl_history *history)
{
    pl_lock_acquire(&history->lock);
    size_t bytes = history->meta.bytes;
    pl_lock_release(&history->lock);
    return bytes;
}

static bool open_meta_locked(pl_history *history)
{
    pl_lock_assert(&history->lock);
    return history->meta.is_open || pl_meta_init(&history->meta) == PLEAT_OK;
}

/* ---- recording ---- */

static pl_history_ring *make_ring_locked(pl_history *history, size_t capacity)
{
    pl_history_ring *ring = NULL;
    if (open_meta_locked(history)) {
        ring = pl_meta_alloc(&history->meta,
                             sizeof *ring + capacity * sizeof ring->at[0]); /* < 2^35 */
    }
    if (ring) {
        *ring = (pl_history_ring){ .capacity = capacity };
    }
    return ring;
}

pleat_status pl_history_prepare(pl_history *history, size_t max_entries, unsigned flags,
                                pl_history_ring **out)
{
    bool is_kept = (flags & PLEAT_HISTORY_KEEP) != 0;
    pleat_status st = PLEAT_OK;
    *out = NULL;
    pl_lock_acquire(&history->lock);
    bool has_it = is_kept && history->ring && history->ring->capacity == max_entries;
    if (max_entries > 0 && !has_it) {
        *out = make_ring_locked(history, max_entries);
        st = *out ? PLEAT_OK : PLEAT_ENOMEM_HOST;
    }
    pl_lock_release(&history->lock);
    return st;
}

static size_t copy_locked(const pl_history *history, pl_history_entry *out, size_t most)
{
    const pl_history_ring *ring = history->ring;
    pl_lock_assert(&history->lock);
    if (!ring) {
        return 0;
    }
    size_t n = most < ring->n_held ? most : ring->n_held;
    size_t n_late = n < ring->next ? n : ring->next; /* the entries before `next` are the newest */
    if (n > n_late) {
        memcpy(out, ring->at + ring->capacity - (n - n_late), (n - n_late) * sizeof *out);
    }
    if (n_late > 0) {
        memcpy(out + (n - n_late), ring->at + ring->next - n_late, n_late * sizeof *out);
    }
    return ring->n_held;
}

static void keep_locked(pl_history *history, pl_history_ring *ring)
{
    size_t n_held = copy_locked(history, ring->at, ring->capacity);
    ring->n_held = n_held < ring->capacity ? n_held : ring->capacity;
    ring->next = ring->n_held < ring->capacity ? ring->n_held : 0;
}

static void listen_locked(pl_history *history)
{
    bool is_followed = history->is_recording || history->watch != NULL;
    bool is_on = is_followed || history->tell_driver != NULL || history->nvtx != NULL;
    pl_lock_assert(&history->lock);
    atomic_store_explicit(&history->is_followed, is_followed, memory_order_relaxed);
    atomic_store_explicit(&history->observer.is_on, is_on, memory_order_relaxed);
}

void pl_history_tell_driver(pl_history *history, pl_tell_fn to)
{
    pl_lock_acquire(&history->lock);
    history->tell_driver = to;
    listen_locked(history);
    pl_lock_release(&history->lock);
}

void pl_history_tell_tool(pl_history *history)
{
    if (!pl_nvtx_is_offered()) {
        return;
    }
    pl_lock_acquire(&history->lock);
    history->nvtx = open_meta_locked(history) ? pl_nvtx_open(&history->meta, history->device)
                                              : NULL;
    if (history->nvtx) {
        history->observer.tell = tell_tool_and_event;
    }
    listen_locked(history);
    pl_lock_release(&history->lock);
}

void pl_history_leave_tool(pl_history *history)
{
    pl_lock_acquire(&history->lock);
    pl_nvtx_close(history->nvtx);
    history->nvtx = NULL;
    history->observer.tell = tell_event;
    listen_locked(history);
    pl_lock_release(&history->lock);
}

/* All is recorded from here on. An entry that nobody tells stands for what was not. */
static void begin_locked(pl_history *history, bool has_gap)
{
    uint64_t n_told = pl_history_n_told(history) + has_gap;
    pl_lock_assert(&history->lock);
    atomic_store_explicit(&history->n_told, n_told, memory_order_release);
    history->whole_from = n_told;
}

void pl_history_skip(pl_history *history)
{
    pl_lock_acquire(&history->lock);
    begin_locked(history, true);
    pl_lock_release(&history->lock);
}

void pl_history_commit(pl_history *history, pl_history_ring *ring, size_t max_entries,
                       unsigned flags)
{
    bool is_kept = (flags & PLEAT_HISTORY_KEEP) != 0;
    pl_lock_acquire(&history->lock);
    if (!history->is_recording || (ring && !is_kept)) {
        begin_locked(history, history->ring != NULL);
    }
    if (ring && is_kept) {
        keep_locked(history, ring);
    } else if (ring) {
        pl_stacks_clear(&history->stacks);
    }
    if (ring) {
        pl_meta_free(&history->meta, history->ring);
        history->ring = ring;
    }
    const unsigned frames = PLEAT_HISTORY_FRAMES | PLEAT_HISTORY_FREE_FRAMES;
    bool is_on = max_entries > 0;
    atomic_store_explicit(&history->flags, is_on ? flags & frames : 0, memory_order_relaxed);
    history->is_recording = is_on;
    listen_locked(history);
    pl_lock_release(&history->lock);
}

void pl_history_watch(pl_history *history, pleat_change_fn see, void *context)
{
    pl_lock_acquire(&history->lock);
    history->watch = see;
    history->watch_context = context;
    listen_locked(history);
    pl_lock_release(&history->lock);
}

void pl_history_drop(pl_history *history, pl_history_ring *ring)
{
    pl_lock_acquire(&history->lock);
    pl_meta_free(&history->meta, ring);
    pl_lock_release(&history->lock);
}

/* ---- private pools ---- */

static bool grow_pools_locked(pl_history *history)
{
    if (history->n_pools == UINT16_MAX) { /* the capacity may be larger by one */
        pl_driver_set_detail("the device has %d private pools, the most that it can have",
                             UINT16_MAX);
        return false;
    }
    if (history->n_pools < history->capacity_of_pools) {
        return true;
    }
    unsigned capacity = history->capacity_of_pools > 0 ? history->capacity_of_pools * 2 : 16;
    pl_history_pool *pools = pl_meta_realloc(&history->meta, history->pools,
                                             capacity * sizeof *pools);
    history->pools = pools ? pools : history->pools;
    history->capacity_of_pools = pools ? capacity : history->capacity_of_pools;
    return pools != NULL;
}

/* An index for a new name, or 0. The index of the pool that was released first is reused only if no
 * entry can name the pool any more, or if indices are used up. */
static unsigned take_index_locked(pl_history *history)
{
    unsigned index = history->released_first;
    bool is_reused = !history->ring || history->n_pools == UINT16_MAX;
    if (is_reused && index > 0) {
        history->released_first = history->pools[index - 1].next_released;
        return index;
    }
    return grow_pools_locked(history) ? ++history->n_pools : 0;
}

static void forget_pool_locked(pl_history *history, const void *private_in)
{
    live_pool *pool = find_locked(history, private_in);
    if (!pool) {
        return;
    }
    unsigned index = pool->index;
    pl_tree_remove(&history->live_pools, &pool->node);
    pl_meta_free(&history->meta, pool);
    history->pools[index - 1].next_released = 0;
    if (history->released_first > 0) {
        history->pools[history->released_last - 1].next_released = (uint16_t)index;
    } else {
        history->released_first = index;
    }
    history->released_last = index;
}

static unsigned name_pool_locked(pl_history *history, const void *private_in, pleat_pool_id id)
{
    live_pool *pool = open_meta_locked(history) ? pl_meta_alloc(&history->meta, sizeof *pool)
                                                : NULL;
    unsigned index = pool ? take_index_locked(history) : 0;
    if (index == 0) {
        pl_meta_free(&history->meta, pool);
        return 0;
    }
    forget_pool_locked(history, private_in);
    history->pools[index - 1] = (pl_history_pool){ .id = id };
    *pool = (live_pool){ .private_in = (uintptr_t)private_in, .index = index };
    pl_tree_insert(&history->live_pools, &pool->node);
    return index;
}

pleat_status pl_history_name_pool(pl_history *history, const void *private_in, pleat_pool_id id)
{
    pl_lock_acquire(&history->lock);
    unsigned index = name_pool_locked(history, private_in, id);
    pl_lock_release(&history->lock);
    return index > 0 ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

void pl_history_forget_pool(pl_history *history, const void *private_in)
{
    pl_lock_acquire(&history->lock);
    forget_pool_locked(history, private_in);
    pl_lock_release(&history->lock);
}

unsigned pl_history_pool_index(pl_history *history, const void *private_in)
{
    pl_lock_acquire(&history->lock);
    unsigned index = pool_index_locked(history, private_in);
    pl_lock_release(&history->lock);
    return index;
}

pleat_pool_id pl_history_pool_id(pl_history *history, unsigned index)
{
    pleat_pool_id id = { 0, 0 };
    pl_lock_acquire(&history->lock);
    if (index > 0 && index <= history->n_pools) {
        id = history->pools[index - 1].id;
    }
    pl_lock_release(&history->lock);
    return id;
}

size_t pl_history_pool_ids(pl_history *history, pleat_pool_id *out, size_t most)
{
    pl_lock_acquire(&history->lock);
    size_t n_named = history->n_pools + (size_t)1;
    for (size_t i = 0; i < n_named && i < most; i++) {
        out[i] = i > 0 ? history->pools[i - 1].id : (pleat_pool_id){ 0, 0 };
    }
    pl_lock_release(&history->lock);
    return n_named;
}

/* ---- reading ---- */

size_t pl_history_copy(pl_history *history, pl_history_entry *out, size_t most, uint64_t *n_told)
{
    pl_lock_acquire(&history->lock);
    size_t n_held = copy_locked(history, out, most);
    if (n_told) {
        *n_told = pl_history_n_told(history);
    }
    pl_lock_release(&history->lock);
    return n_held;
}

bool pl_history_is_whole(pl_history *history, uint64_t number)
{
    pl_lock_acquire(&history->lock);
    bool is_whole = history->is_recording && number >= history->whole_from;
    pl_lock_release(&history->lock);
    return is_whole;
}

size_t pl_history_stack(pl_history *history, uint32_t frames, void *out[PL_HISTORY_DEPTH])
{
    pl_lock_acquire(&history->lock);
    size_t n = pl_stacks_get(&history->stacks, frames, out);
    pl_lock_release(&history->lock);
    return n;
}
