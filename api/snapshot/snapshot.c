/* snapshot.c - writes PyTorch's snapshot dictionary from the state and history of each device.
 *
 * All devices are copied first, each under its allocator's lock; then everything is written without
 * any lock.
 * Source: PyTorch 2.11, torch/csrc/cuda/memory_snapshot.cpp and torch/csrc/cuda/Module.cpp for the
 * keys, torch/cuda/_memory_viz.py and torch/utils/viz/MemoryViz.js for their readers. */
#include "api/snapshot/snapshot.h"

#include <string.h>

#include "api/instance/instance.h"
#include "api/instance/rounding.h"
#include "api/snapshot/frames.h"
#include "api/snapshot/snapshot_state.h"
#include "api/snapshot/writer.h"

typedef struct snapshot {
    pl_instance *instance;
    pl_meta meta;
    pl_frames frames;
    pl_writer *w;
    pl_config config;   /* the instance's current one */
    char *conf;         /* `config` as one string */
    size_t max_entries; /* of each history; 0 = not recording now */
    unsigned n_states;
    pl_snapshot_state states[PL_N_DEVICES]; /* of the devices in use */
} snapshot;

/* ---- segments ---- */

static void write_pool(const snapshot *s, const pl_snapshot_state *state, unsigned index)
{
    pleat_pool_id id = index < state->n_pools ? state->pools[index] : (pleat_pool_id){ 0, 0 };
    pl_write_pair(s->w, id.first, id.second);
}

static void write_stream(const snapshot *s, const void *stream)
{
    pl_write_key(s->w, "stream");
    pl_write_natural(s->w, (uintptr_t)stream);
}

static void write_number(const snapshot *s, const char *key, uint64_t value)
{
    pl_write_key(s->w, key);
    pl_write_natural(s->w, value);
}

static void write_frames(snapshot *s, pl_gpu *gpu, uint32_t name)
{
    pl_write_key(s->w, "frames");
    pl_frames_write(&s->frames, s->w, &gpu->history, gpu->ordinal, name);
}

static void write_block(snapshot *s, pl_gpu *gpu, const pl_snapshot_block *block)
{
    static const char *const states[] = {
        [PL_SNAPSHOT_ALLOCATED] = "active_allocated",
        [PL_SNAPSHOT_PENDING] = "active_pending_free",
        [PL_SNAPSHOT_INACTIVE] = "inactive",
    };
    pl_write_dict(s->w);
    write_number(s, "address", block->base);
    write_number(s, "size", block->bytes);
    write_number(s, "requested_size", block->requested_bytes);
    pl_write_key(s->w, "state");
    pl_write_word(s->w, states[block->use]);
    write_frames(s, gpu, block->frames);
    pl_write_end(s->w);
}

/* blocks[0..n) form one segment. */
static void write_segment_sizes(const snapshot *s, const pl_snapshot_block *blocks, size_t n)
{
    uint64_t total = 0;
    uint64_t allocated = 0;
    uint64_t active = 0;
    uint64_t requested = 0;
    for (size_t i = 0; i < n; i++) {
        total += blocks[i].bytes;
        allocated += blocks[i].use == PL_SNAPSHOT_ALLOCATED ? blocks[i].bytes : 0;
        active += blocks[i].use != PL_SNAPSHOT_INACTIVE ? blocks[i].bytes : 0;
        requested += blocks[i].requested_bytes;
    }
    write_number(s, "total_size", total);
    write_number(s, "allocated_size", allocated);
    write_number(s, "active_size", active);
    write_number(s, "requested_size", requested);
}

/* A key of pleat: PyTorch's readers ignore unknown keys. */
static void write_tag(const snapshot *s, const pl_snapshot_block *first)
{
    if (first->tag) {
        pl_write_key(s->w, "pleat_tag");
        pl_write_text(s->w, first->tag, strlen(first->tag));
        pl_write_key(s->w, "pleat_asleep");
        pl_write_bool(s->w, first->is_asleep);
    }
}

static void write_segment(snapshot *s, const pl_snapshot_state *state,
                          const pl_snapshot_block *blocks, size_t n)
{
    pl_gpu *gpu = state->gpu;
    pl_write_dict(s->w);
    write_number(s, "device", (unsigned)gpu->ordinal);
    write_number(s, "address", blocks[0].base);
    write_segment_sizes(s, blocks, n);
    write_stream(s, blocks[0].stream);
    pl_write_key(s->w, "segment_type");
    pl_write_word(s->w, blocks[0].is_small ? "small" : "large");
    pl_write_key(s->w, "segment_pool_id");
    write_pool(s, state, blocks[0].pool);
    pl_write_key(s->w, "is_expandable");
    pl_write_bool(s->w, gpu->ops->needs_vmm);
    write_tag(s, &blocks[0]);
    write_frames(s, gpu, blocks[0].segment_frames);
    pl_write_key(s->w, "blocks");
    pl_write_list(s->w);
    for (size_t i = 0; i < n; i++) {
        write_block(s, gpu, &blocks[i]);
    }
    pl_write_end(s->w);
    pl_write_end(s->w);
}

static void write_segments(snapshot *s, const pl_snapshot_state *state)
{
    for (size_t first = 0, end; first < state->n_blocks && !s->w->has_failed; first = end) {
        end = first + 1;
        while (end < state->n_blocks && !state->blocks[end].is_first) {
            end++;
        }
        write_segment(s, state, state->blocks + first, end - first);
    }
}

/* ---- histories ---- */

static void write_entry(snapshot *s, const pl_snapshot_state *state, const pl_history_entry *entry)
{
    static const char *const actions[PL_N_HISTORY_ACTIONS] = {
        [PL_ACTION_ALLOC] = "alloc",
        [PL_ACTION_FREE_REQUESTED] = "free_requested",
        [PL_ACTION_FREE_COMPLETED] = "free_completed",
        [PL_ACTION_SEGMENT_ALLOC] = "segment_alloc",
        [PL_ACTION_SEGMENT_FREE] = "segment_free",
        [PL_ACTION_SEGMENT_MAP] = "segment_map",
        [PL_ACTION_SEGMENT_UNMAP] = "segment_unmap",
        [PL_HISTORY_SNAPSHOT] = "snapshot",
        [PL_HISTORY_OOM] = "oom",
    };
    pl_write_dict(s->w);
    pl_write_key(s->w, "action");
    pl_write_word(s->w, actions[entry->action]);
    write_number(s, entry->action == PL_HISTORY_OOM ? "device_free" : "addr", entry->base);
    write_number(s, "size", entry->bytes);
    write_stream(s, entry->stream);
    write_number(s, "time_us", entry->time_us);
    pl_write_key(s->w, "compile_context");
    pl_write_word(s->w, "N/A");
    pl_write_key(s->w, "user_metadata");
    pl_write_word(s->w, "");
    pl_write_key(s->w, "pool_id");
    write_pool(s, state, entry->pool);
    if (entry->frames != 0) {
        write_frames(s, state->gpu, entry->frames);
    }
    pl_write_end(s->w);
}

static void write_trace(snapshot *s, int device)
{
    pl_write_list(s->w);
    for (unsigned i = 0; i < s->n_states; i++) {
        const pl_snapshot_state *state = &s->states[i];
        bool is_it = state->gpu->ordinal == device;
        for (size_t k = 0; is_it && k < state->n_entries && !s->w->has_failed; k++) {
            write_entry(s, state, &state->entries[k]);
        }
    }
    pl_write_end(s->w);
}

/* ---- settings ---- */

static void write_limit(const snapshot *s, const char *key, uint64_t limit_bytes)
{
    pl_write_key(s->w, key);
    pl_write_integer(s->w, limit_bytes > 0 ? (int64_t)limit_bytes : -1);
}

static void write_flag(const snapshot *s, const char *key, bool is_on)
{
    pl_write_key(s->w, key);
    pl_write_bool(s->w, is_on);
}

static void write_divisions(const snapshot *s, const unsigned divisions[PL_N_DIVISIONS])
{
    static const char *const from_mib[PL_N_DIVISIONS] = {
        "1",   "2",   "4",    "8",    "16",   "32",   "64",    "128",
        "256", "512", "1024", "2048", "4096", "8192", "16384", "32768",
    };
    pl_write_key(s->w, "roundup_power2_divisions");
    pl_write_dict(s->w);
    for (int i = 0; i < PL_N_DIVISIONS; i++) {
        write_number(s, from_mib[i], divisions[i]);
    }
    pl_write_end(s->w);
}

/* Tells readers the length of the ring; they warn if the oldest entries were overwritten. */
static void write_ring(const snapshot *s)
{
    bool is_full = false;
    for (unsigned i = 0; i < s->n_states; i++) {
        is_full = is_full || s->states[i].n_entries >= s->max_entries;
    }
    if (s->max_entries > 0) {
        write_number(s, "trace_alloc_max_entries", s->max_entries);
        write_flag(s, "trace_alloc_overflowed", is_full);
    }
}

/* Writes PyTorch's keys. Keys about pinned host memory and the compiler get the values for "none"
 * and "nothing is kept". */
static void write_settings(const snapshot *s)
{
    const pl_config *config = &s->config;
    pl_cache_options options = pl_cache_options_of(config->allocator, &config->options);
    pl_write_dict(s->w);
    pl_write_key(s->w, "PYTORCH_CUDA_ALLOC_CONF");
    pl_write_text(s->w, s->conf, strlen(s->conf));
    write_limit(s, "max_split_size", options.max_split_bytes);
    pl_write_key(s->w, "garbage_collection_threshold");
    pl_write_real(s->w, options.garbage_collection_threshold);
    write_flag(s, "expandable_segments", config->allocator->needs_vmm);
    write_number(s, "pinned_num_register_threads", 1);
    write_flag(s, "release_lock_on_cudamalloc", true);
    write_flag(s, "pinned_use_cuda_host_register", false);
    write_flag(s, "graph_capture_record_stream_reuse", false);
    write_limit(s, "max_round_threshold", 0);
    write_limit(s, "max_cached_size", 0);
    write_divisions(s, config->options.roundup_divisions);
    write_ring(s);
    pl_write_key(s->w, "pleat_allocator");
    pl_write_word(s->w, config->allocator->name);
    pl_write_key(s->w, "pleat_version");
    pl_write_word(s->w, pleat_version());
    pl_write_end(s->w);
}

/* ---- the whole ---- */

static void write_empty(const snapshot *s, const char *key)
{
    pl_write_key(s->w, key);
    pl_write_list(s->w);
    pl_write_end(s->w);
}

static void write_all(snapshot *s)
{
    pl_write_dict(s->w);
    pl_write_key(s->w, "segments");
    pl_write_list(s->w);
    for (unsigned i = 0; i < s->n_states; i++) {
        write_segments(s, &s->states[i]);
    }
    pl_write_end(s->w);
    pl_write_key(s->w, "device_traces");
    pl_write_list(s->w);
    for (int device = 0; device < s->instance->n_devices; device++) {
        write_trace(s, device);
    }
    pl_write_end(s->w);
    pl_write_key(s->w, "allocator_settings");
    write_settings(s);
    write_empty(s, "external_annotations");
    write_empty(s, "host_segments");
    write_empty(s, "host_traces");
    pl_write_end(s->w);
}

static pleat_status copy_conf(snapshot *s)
{
    s->config = pl_instance_config_now(s->instance);
    size_t n_bytes = pl_config_write(&s->config, NULL, 0);
    s->conf = pl_meta_alloc(&s->meta, n_bytes);
    if (!s->conf) {
        return PLEAT_ENOMEM_HOST;
    }
    (void)pl_config_write(&s->config, s->conf, n_bytes);
    return PLEAT_OK;
}

static pleat_status copy_devices(snapshot *s)
{
    pleat_status st = PLEAT_OK;
    for (int i = 0; i < s->instance->n_devices && st == PLEAT_OK; i++) {
        pl_gpu *gpu = pl_use_find_gpu(s->instance, i);
        if (gpu) {
            st = pl_snapshot_copy(gpu, &s->meta, &s->states[s->n_states]);
            s->n_states += st == PLEAT_OK;
        }
    }
    return st;
}

static pleat_status copy_all(snapshot *s)
{
    pl_lock_acquire(&s->instance->lock);
    s->max_entries = s->instance->history_entries;
    pl_lock_release(&s->instance->lock);
    s->w = pl_meta_alloc(&s->meta, sizeof *s->w);
    if (!s->w) {
        return PLEAT_ENOMEM_HOST;
    }
    pleat_status st = copy_conf(s);
    return st == PLEAT_OK ? copy_devices(s) : st;
}

static void forget_all(snapshot *s)
{
    for (unsigned i = 0; i < s->n_states; i++) {
        pl_snapshot_forget(&s->meta, &s->states[i]);
    }
    pl_frames_fini(&s->frames);
    pl_meta_free(&s->meta, s->conf);
    pl_meta_free(&s->meta, s->w);
    (void)pl_meta_fini(&s->meta);
}

pleat_status pl_snapshot_write(pl_instance *instance, pleat_snapshot_format format,
                               pleat_write_fn write, void *context)
{
    snapshot s = { .instance = instance };
    pleat_status st = pl_meta_init(&s.meta);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_frames_init(&s.frames, &s.meta);
    st = copy_all(&s);
    if (st == PLEAT_OK) {
        bool is_json = format == PLEAT_SNAPSHOT_JSON;
        pl_writer_init(s.w, is_json ? &pl_writer_json : &pl_writer_pickle, write, context);
        write_all(&s);
        st = pl_writer_finish(s.w) ? PLEAT_OK : PLEAT_EWRITE;
    }
    forget_all(&s);
    return st;
}
