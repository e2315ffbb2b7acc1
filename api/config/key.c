/* key.c - the configuration's own keys, and reading a value into its field. No lock, no memory. */
#include "api/config/key.h"

#include <string.h>

#include "api/config/mxnet.h"
#include "api/parts/history.h"
#include "segments/base/rounding.h"
#include "vmm/base/assert.h"

#define AT(member) PL_OPTION_AT(pl_config, member)

static const char *const driver_words[] = { "auto", "cuda", "sim", NULL };
static const char *const identity_words[] = { "id", "handle", NULL };
static const char *const demand_words[] = { "False", "True", "auto", NULL };
static const char *const memory_words[] = { "device", "host", NULL };
static const char *const frames_words[] = { "none", "alloc", "all", NULL };

static const struct own_key {
    pl_key_kind kind;
    pl_option option;
} own_keys[] = {
    { PL_KEY_OPTION, { "driver", PL_OPTION_WORD, AT(driver), .words = driver_words } },
    { PL_KEY_SIM, { "sim", .offset = offsetof(pl_config, sim_conf) } },
    { PL_KEY_ALLOCATOR, { "allocator", .offset = offsetof(pl_config, allocator) } },
    { PL_KEY_FALLBACK, { "fallback", .offset = offsetof(pl_config, fallback) } },
    { PL_KEY_LIMIT, { "limit", .offset = offsetof(pl_config, limit_bytes), .least = 4096 } },
    { PL_KEY_OPTION, { "wait_ms", PL_OPTION_NUMBER, AT(options.wait_ms), .most = 86400000 } },
    { PL_KEY_OPTION,
      { "roundup_power2_divisions", PL_OPTION_DIVISIONS, AT(options.roundup_divisions),
        .most = PL_ROUNDING_MOST } },
    { PL_KEY_OPTION,
      { "stream_identity", PL_OPTION_WORD, AT(device.stream_identity), .words = identity_words } },
    { PL_KEY_OPTION,
      { "chunk_granules", PL_OPTION_NUMBER, AT(device.chunk_granules), .least = 1,
        .most = 65536 } },
    { PL_KEY_OPTION, { "address_budget", PL_OPTION_SIZE, AT(device.address_budget_bytes) } },
    { PL_KEY_OPTION,
      { "shareable", PL_OPTION_WORD, AT(device.handle_posix_fd), .words = demand_words } },
    { PL_KEY_OPTION, { "rdma", PL_OPTION_WORD, AT(device.handle_rdma), .words = demand_words } },
    { PL_KEY_OPTION, { "memory", PL_OPTION_WORD, AT(memory), .words = memory_words } },
    { PL_KEY_OPTION, { "host_node", PL_OPTION_NUMBER, AT(device.host_node), .most = 1024 } },
    { PL_KEY_OPTION, { "peers", PL_OPTION_BOOL, AT(device.peers) } },
    { PL_KEY_OPTION, { "time_calls", PL_OPTION_BOOL, AT(time_calls) } },
    { PL_KEY_OPTION,
      { "history", PL_OPTION_NUMBER, AT(history_entries), .most = PL_HISTORY_MOST_ENTRIES } },
    { PL_KEY_OPTION,
      { "history_frames", PL_OPTION_WORD, AT(history_frames), .words = frames_words } },
    { PL_KEY_METRICS, { "metrics", .offset = offsetof(pl_config, metrics) } },
    { PL_KEY_OPTION,
      { "metrics_ms", PL_OPTION_NUMBER, AT(metrics_ms), .least = 10, .most = 86400000 } },
    { PL_KEY_POLICY, { "policy", .offset = offsetof(pl_config, policy) } },
};

enum { N_OWN = sizeof own_keys / sizeof own_keys[0] };

/* The configuration's own keys, then those of the option tables. */
bool pl_key_at(unsigned index, pl_key *out)
{
    pl_assert(index <= PL_KEYS_MOST); /* sets of keys are bit masks */
    if (index < N_OWN) {
        *out = (pl_key){ .option = &own_keys[index].option, .kind = own_keys[index].kind };
        return true;
    }
    index -= N_OWN;
    const pl_option_table *table;
    for (unsigned i = 0; (table = pl_option_table_at(i)) != NULL; i++) {
        if (index < table->n) {
            *out = (pl_key){ .option = &table->options[index],
                             .base = offsetof(pl_config, options) + pl_own_offset(table) };
            return true;
        }
        index -= table->n;
    }
    return false;
}

bool pl_key_is_same(const pl_key *key, const pl_key *other)
{
    return key->base + key->option->offset == other->base + other->option->offset;
}

uint64_t pl_key_load(const pl_key *key, const pl_config *config)
{
    return pl_option_load(key->option, (const char *)config + key->base);
}

/* ---- reading values of its own kinds --------------------------------------------------------- */

static bool read_limit(pl_config *config, const pl_key *key, pl_span value)
{
    uint32_t parts = 0;
    uint64_t bytes = 0;
    bool is_none = pl_span_is(value, "none");
    if (!is_none && !pl_parse_fraction(value, &parts) &&
        (!pl_parse_size(value, &bytes) || bytes < key->option->least)) {
        return false;
    }
    config->limit_parts = parts;
    config->limit_bytes = bytes;
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
    for (unsigned i = 0; key->kind == PL_KEY_ALLOCATOR && (name = pl_host_allocator_name(i)); i++) {
        if (pl_span_is(value, name)) {
            config->allocator = pl_allocator_find(name);
            return true;
        }
    }
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

/* A path of printable characters; % stands only in %p or %%. */
static bool read_metrics(pl_config *config, pl_span value)
{
    bool is_none = pl_span_is(value, "none");
    if (value.n == 0 || value.n >= sizeof config->metrics) {
        return false;
    }
    for (size_t i = 0; i < value.n; i++) {
        bool is_percent = value.at[i] == '%';
        char next = i + 1 < value.n ? value.at[i + 1] : '\0';
        if ((unsigned char)value.at[i] < ' ' || (is_percent && next != 'p' && next != '%')) {
            return false;
        }
        i += is_percent;
    }
    memcpy(config->metrics, value.at, is_none ? 0 : value.n);
    config->metrics[is_none ? 0 : value.n] = '\0';
    return true;
}

/* A path with a slash, as a name alone would be searched for among the system's libraries. */
static bool read_policy(pl_config *config, pl_span value)
{
    bool is_none = pl_span_is(value, "none");
    if (value.n == 0 || value.n >= sizeof config->policy ||
        (!is_none && !memchr(value.at, '/', value.n))) {
        return false;
    }
    memcpy(config->policy, value.at, is_none ? 0 : value.n);
    config->policy[is_none ? 0 : value.n] = '\0';
    return true;
}

bool pl_key_read(const pl_key *key, pl_span value, bool is_bracketed, pl_config *config)
{
    switch (key->kind) {
    case PL_KEY_OPTION:
        return pl_option_read(key->option, value, is_bracketed, (char *)config + key->base);
    case PL_KEY_LIMIT:
        return !is_bracketed && read_limit(config, key, value);
    case PL_KEY_ALLOCATOR:
    case PL_KEY_FALLBACK:
        return !is_bracketed && read_allocator(config, key, value);
    case PL_KEY_SIM:
        return is_bracketed && read_sim(config, value);
    case PL_KEY_METRICS:
        return read_metrics(config, value);
    case PL_KEY_POLICY:
        return read_policy(config, value);
    }
    return false;
}
