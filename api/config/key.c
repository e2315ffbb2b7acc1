/* key.c - the table of keys, and reading a value into its field. No lock, no memory. */
#include "api/config/key.h"

#include <string.h>

#include "api/config/divisions.h"
#include "api/config/mxnet.h"
#include "api/history/history.h"

#define FIELD(member)                                                                              \
    .offset = offsetof(pl_config, member), .bytes = sizeof(((pl_config *)0)->member)

static const char *const driver_words[] = { "auto", "cuda", "sim", NULL };
static const char *const growth_words[] = { "balanced", "frugal", "ample", NULL };
static const char *const cross_words[] = { "order", "settled", NULL };
static const char *const capture_words[] = { "ask", "told", NULL };
static const char *const identity_words[] = { "id", "handle", NULL };
static const char *const frames_words[] = { "none", "alloc", "all", NULL };

/* clang-format off */
static const pl_key keys[] = {
    { "driver", PL_KEY_WORD, FIELD(driver), .words = driver_words },
    { "sim", PL_KEY_SIM, FIELD(sim_conf) },
    { "allocator", PL_KEY_ALLOCATOR, FIELD(allocator) },
    { "fallback", PL_KEY_FALLBACK, FIELD(fallback) },
    { "limit", PL_KEY_LIMIT, FIELD(limit_bytes), .least = 4096 },
    { "growth", PL_KEY_WORD, FIELD(options.growth), .words = growth_words },
    { "cross_stream", PL_KEY_WORD, FIELD(options.cross_stream), .words = cross_words },
    { "wait_ms", PL_KEY_NUMBER, FIELD(options.wait_ms), .most = 86400000, .scale = 1 },
    { "capture", PL_KEY_WORD, FIELD(options.capture), .words = capture_words },
    { "stream_identity", PL_KEY_WORD, FIELD(device.stream_identity), .words = identity_words },
    { "chunk_granules", PL_KEY_NUMBER, FIELD(device.chunk_granules), .least = 1, .most = 65536,
      .scale = 1 },
    { "address_budget", PL_KEY_SIZE, FIELD(device.address_budget_bytes) },
    { "shareable", PL_KEY_BOOL, FIELD(device.handle_posix_fd) },
    { "rdma", PL_KEY_BOOL, FIELD(device.handle_rdma) },
    { "peers", PL_KEY_BOOL, FIELD(device.peers) },
    { "time_calls", PL_KEY_BOOL, FIELD(time_calls) },
    { "history", PL_KEY_NUMBER, FIELD(history_entries), .most = PL_HISTORY_MOST_ENTRIES,
      .scale = 1 },
    { "history_frames", PL_KEY_WORD, FIELD(history_frames), .words = frames_words },
    { "small_kib", PL_KEY_NUMBER, FIELD(options.small_bytes), .most = 1024, .scale = 1024 },
    { "token_refill", PL_KEY_NUMBER, FIELD(options.token_refill), .most = 1000000, .scale = 1 },
    { "token_cap", PL_KEY_NUMBER, FIELD(options.token_cap), .most = 1000000, .scale = 1 },
    { "order_interval", PL_KEY_NUMBER, FIELD(options.order_interval), .least = 1,
      .most = 1000000000, .scale = 1 },
    { "keep_permille", PL_KEY_NUMBER, FIELD(options.keep_permille), .most = 100000, .scale = 1 },
    { "large_segment_size_mb", PL_KEY_NUMBER, FIELD(options.large_segment_bytes), .least = 11,
      .most = 1 << 24, .scale = 1 << 20 },
    { "max_split_size_mb", PL_KEY_NUMBER, FIELD(options.max_split_bytes), .least = 11,
      .most = 1 << 24, .scale = 1 << 20 },
    { "max_non_split_rounding_mb", PL_KEY_NUMBER, FIELD(options.max_non_split_rounding_bytes),
      .least = 11, .most = 1 << 24, .scale = 1 << 20 },
    { "garbage_collection_threshold", PL_KEY_PART, FIELD(options.garbage_collection_threshold) },
    { "roundup_power2_divisions", PL_KEY_DIVISIONS, FIELD(options.roundup_divisions), .most = 64 },
    { "per_process_memory_fraction", PL_KEY_SHARE, FIELD(options.per_process_memory_fraction) },
    { "expandable_small_page_mb", PL_KEY_NUMBER, FIELD(options.expandable_small_page_bytes),
      .least = 1, .most = 1 << 20, .scale = 1 << 20 },
    { "expandable_large_page_mb", PL_KEY_NUMBER, FIELD(options.expandable_large_page_bytes),
      .least = 1, .most = 1 << 20, .scale = 1 << 20 },
    { "bfc_allow_growth", PL_KEY_BOOL, FIELD(options.bfc_allow_growth) },
    { "bfc_garbage_collection", PL_KEY_BOOL, FIELD(options.bfc_garbage_collection) },
    { "bfc_fragmentation_fraction", PL_KEY_PART, FIELD(options.bfc_fragmentation_fraction) },
    { "async_release_threshold", PL_KEY_SIZE, FIELD(options.async_release_threshold_bytes) },
    { "mxnet_gpu_mem_pool_reserve", PL_KEY_NUMBER, FIELD(options.mxnet_reserve_percent),
      .most = 100, .scale = 1 },
    { "mxnet_gpu_pool_page_size", PL_KEY_SIZE, FIELD(options.mxnet_page_bytes), .least = 32 },
    { "mxnet_gpu_mem_pool_page_size", PL_KEY_SIZE, FIELD(options.mxnet_page_bytes), .least = 32,
      .is_second_spelling = true },
    { "mxnet_gpu_mem_large_alloc_round_size", PL_KEY_SIZE, FIELD(options.mxnet_large_bytes) },
    { "mxnet_gpu_mem_pool_round_linear_cutoff", PL_KEY_NUMBER, FIELD(options.mxnet_cutoff),
      .least = 20, .most = 34, .scale = 1 },
};
/* clang-format on */

enum { N_KEYS = sizeof keys / sizeof keys[0] };
_Static_assert(sizeof(unsigned[PL_N_DIVISIONS]) ==
                   sizeof(((pl_allocator_options *)0)->roundup_divisions),
               "one for each");
_Static_assert(sizeof keys / sizeof keys[0] <= PL_KEYS_MOST, "sets of keys are bit masks");

const pl_key *pl_key_at(unsigned index)
{
    return index < N_KEYS ? &keys[index] : NULL;
}

static void store(pl_config *config, const pl_key *key, uint64_t value)
{
    char *field = (char *)config + key->offset;
    if (key->bytes == sizeof(uint32_t)) {
        uint32_t narrow = (uint32_t)value;
        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &value, sizeof value);
    }
}

uint64_t pl_key_load(const pl_key *key, const pl_config *config)
{
    const char *field = (const char *)config + key->offset;
    uint64_t value = 0;
    if (key->bytes == sizeof(uint32_t)) {
        uint32_t narrow;
        memcpy(&narrow, field, sizeof narrow);
        value = narrow;
    } else {
        memcpy(&value, field, sizeof value);
    }
    return value;
}

/* ---- reading values ---- */

static bool read_word(pl_config *config, const pl_key *key, pl_span value)
{
    for (unsigned i = 0; key->words[i]; i++) {
        if (pl_span_is(value, key->words[i])) {
            store(config, key, i);
            return true;
        }
    }
    return false;
}

static bool read_number(pl_config *config, const pl_key *key, pl_span value)
{
    uint64_t number;
    if (!pl_parse_number(value, key->most, &number) || number < key->least) {
        return false;
    }
    store(config, key, number * key->scale);
    return true;
}

static bool read_size(pl_config *config, const pl_key *key, pl_span value)
{
    uint64_t bytes;
    if (!pl_parse_size(value, &bytes) || bytes < key->least || bytes == 0) {
        return false;
    }
    store(config, key, bytes);
    return true;
}

static bool read_limit(pl_config *config, const pl_key *key, pl_span value)
{
    uint32_t parts = 0;
    uint64_t bytes = 0;
    bool is_none = pl_span_is(value, "none");
    if (!is_none && !pl_parse_fraction(value, &parts) &&
        (!pl_parse_size(value, &bytes) || bytes < key->least)) {
        return false;
    }
    config->limit_parts = parts;
    config->limit_bytes = bytes;
    return true;
}

/* A fraction that may be 0 but not 1, or 1 but not 0. */
static bool read_part(pl_config *config, const pl_key *key, pl_span value)
{
    bool is_share = key->kind == PL_KEY_SHARE;
    uint32_t parts = 0;
    if (!(pl_span_is(value, "0") && !is_share) &&
        (!pl_parse_fraction(value, &parts) || (parts == PL_WHOLE_PARTS && !is_share))) {
        return false;
    }
    double part = (double)parts / PL_WHOLE_PARTS;
    memcpy((char *)config + key->offset, &part, sizeof part);
    return true;
}

static bool read_divisions(pl_config *config, const pl_key *key, pl_span value, bool is_bracketed)
{
    uint64_t power;
    unsigned *divisions = config->options.roundup_divisions;
    if (is_bracketed) {
        return pl_divisions_read(value, key->most, divisions);
    }
    if (!pl_parse_number(value, key->most, &power) || (power & (power - 1)) != 0) {
        return false;
    }
    for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
        divisions[i] = (unsigned)power;
    }
    return true;
}

static bool read_allocator(pl_config *config, const pl_key *key, pl_span value)
{
    if (key->kind == PL_KEY_FALLBACK && pl_span_is(value, "none")) {
        config->fallback = NULL;
        return true;
    }
    if (key->kind == PL_KEY_ALLOCATOR && pl_span_is(value, pl_mxnet_alias.name)) {
        config->allocator = &pl_mxnet_alias;
        return true;
    }
    const char *name;
    for (unsigned i = 0; (name = pl_allocator_name(i)) != NULL; i++) {
        const pl_allocator_ops *ops = pl_allocator_find(name);
        if (!pl_span_is(value, name) || (key->kind == PL_KEY_FALLBACK && ops->needs_vmm)) {
            continue;
        }
        if (key->kind == PL_KEY_FALLBACK) {
            config->fallback = ops;
        } else {
            config->allocator = ops;
        }
        return true;
    }
    return false;
}

static bool read_sim(pl_config *config, pl_span value)
{
    if (value.n >= sizeof config->sim_conf) {
        return false;
    }
    memcpy(config->sim_conf, value.at, value.n);
    config->sim_conf[value.n] = '\0';
    config->has_sim_conf = true;
    return true;
}

bool pl_key_read(const pl_key *key, pl_span value, bool is_bracketed, pl_config *config)
{
    if (is_bracketed != (key->kind == PL_KEY_SIM) && key->kind != PL_KEY_DIVISIONS) {
        return false;
    }
    switch (key->kind) {
    case PL_KEY_WORD:
        return read_word(config, key, value);
    case PL_KEY_NUMBER:
        return read_number(config, key, value);
    case PL_KEY_SIZE:
        return read_size(config, key, value);
    case PL_KEY_BOOL:
        return pl_parse_bool(value, (bool *)((char *)config + key->offset));
    case PL_KEY_PART:
    case PL_KEY_SHARE:
        return read_part(config, key, value);
    case PL_KEY_DIVISIONS:
        return read_divisions(config, key, value, is_bracketed);
    case PL_KEY_LIMIT:
        return read_limit(config, key, value);
    case PL_KEY_ALLOCATOR:
    case PL_KEY_FALLBACK:
        return read_allocator(config, key, value);
    case PL_KEY_SIM:
        return read_sim(config, value);
    }
    return false;
}
