/* config.c - reads the configuration, strictly.
 *
 * Only this file reads environment variables. The keys: key.c. No lock, no host memory. */
#include "api/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/error.h"
#include "api/config/hint.h"
#include "api/config/key.h"
#include "api/config/mxnet.h"

enum { NAMES_BYTES = 1536 }; /* for the names of all keys */

static pleat_status refuse_key(const char *source, pl_span name)
{
    char names[NAMES_BYTES];
    char hint[PL_HINT_BYTES];
    pl_text text;
    pl_nearest nearest;
    pl_text_init(&text, names, sizeof names);
    pl_nearest_init(&nearest, name);
    pl_key key;
    for (unsigned i = 0; pl_key_at(i, &key); i++) {
        const char *known = key.option->name;
        pl_text_add(&text, "%s%s", i > 0 ? ", " : "", known);
        pl_nearest_offer(&nearest, (pl_span){ known, strlen(known) });
    }
    bool is_near = pl_nearest_say(&nearest, "", hint)[0] != '\0'; /* then the list would hide it */
    return pl_error_set(PLEAT_ECONF, 0, "%s: unknown key '%.*s'%s%s", source,
                        pl_key_echo_bytes(name), name.at,
                        is_near ? hint : "; known: ", is_near ? "" : names);
}

/* ---- reading strings ---- */

/* One `key:value` and the text after it. */
typedef struct conf_item {
    pl_span name;
    pl_span value;
    bool is_bracketed;
    const char *rest; /* after the comma; NULL after the last item */
} conf_item;

/* The end of the value that starts at `at`: a comma outside brackets, or the end of the text. NULL
 * when brackets do not match. */
static const char *end_of_value(const char *at)
{
    unsigned depth = 0;
    for (; *at != '\0' && !(*at == ',' && depth == 0); at++) {
        if (*at == '[') {
            depth++;
        } else if (*at == ']' && depth-- == 0) {
            return NULL;
        }
    }
    return depth == 0 ? at : NULL;
}

static pleat_status split_item(const char *source, const char *at, conf_item *out)
{
    size_t n_name = strcspn(at, ":,[]");
    pl_span name = pl_span_trimmed((pl_span){ at, n_name });
    if (at[n_name] != ':' || name.n == 0) {
        pl_span item = pl_span_trimmed((pl_span){ at, strcspn(at, ",") });
        return pl_error_set(PLEAT_ECONF, 0, "%s: '%.*s' is not of the form key:value", source,
                            pl_key_echo_bytes(item), item.at);
    }
    const char *start = at + n_name + 1;
    const char *end = end_of_value(start);
    if (!end) {
        return pl_error_set(PLEAT_ECONF, 0, "%s: the brackets of the key '%.*s' do not match",
                            source, pl_key_echo_bytes(name), name.at);
    }
    pl_span value = pl_span_trimmed((pl_span){ start, (size_t)(end - start) });
    bool is_bracketed = value.n >= 2 && value.at[0] == '[' && value.at[value.n - 1] == ']';
    if (is_bracketed) {
        value = pl_span_trimmed((pl_span){ value.at + 1, value.n - 2 });
    }
    *out = (conf_item){ .name = name,
                        .value = value,
                        .is_bracketed = is_bracketed,
                        .rest = *end == ',' ? end + 1 : NULL };
    return PLEAT_OK;
}

/* The key `at` was just read over the value `before`: refuse the key if an earlier spelling gave
 * another value. */
static pleat_status compare_spellings(const char *source, unsigned at, uint64_t before,
                                      uint64_t seen, const pl_config *config)
{
    pl_key key;
    pl_key other;
    (void)pl_key_at(at, &key);
    for (unsigned i = 0; pl_key_at(i, &other); i++) {
        if (i != at && (seen >> i & 1) != 0 && pl_key_is_same(&key, &other) &&
            pl_key_load(&key, config) != before) {
            return pl_error_set(PLEAT_ECONF, 0,
                                "%s: the keys '%s' and '%s' are two spellings of the same and "
                                "differ",
                                source, other.option->name, key.option->name);
        }
    }
    return PLEAT_OK;
}

/* Bit i of *seen: the key with index i was given. */
static pleat_status read_item(const char *source, const conf_item *item, pl_config *config,
                              uint64_t *seen)
{
    unsigned at = 0;
    pl_key key;
    do {
        if (!pl_key_at(at, &key)) {
            return refuse_key(source, item->name);
        }
    } while (!pl_span_is(item->name, key.option->name) && ++at);
    if ((*seen >> at & 1) != 0) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "%s: the key '%s' is given twice, the second time with '%.*s'", source,
                            key.option->name, pl_key_echo_bytes(item->value), item->value.at);
    }
    *seen |= UINT64_C(1) << at;
    bool is_loaded = key.kind == PL_KEY_OPTION && key.option->kind == PL_OPTION_SIZE;
    uint64_t before = is_loaded ? pl_key_load(&key, config) : 0;
    if (!pl_key_read(&key, item->value, item->is_bracketed, config)) {
        return pl_key_refuse(source, &key, item->value);
    }
    return is_loaded ? compare_spellings(source, at, before, *seen, config) : PLEAT_OK;
}

static pleat_status read_string(const char *source, const char *conf, pl_config *config)
{
    uint64_t seen = 0;
    if (!conf || pl_span_trimmed((pl_span){ conf, strlen(conf) }).n == 0) {
        return PLEAT_OK;
    }
    while (conf) {
        conf_item item = { .rest = NULL };
        pleat_status st = split_item(source, conf, &item);
        if (st == PLEAT_OK) {
            st = read_item(source, &item, config, &seen);
        }
        if (st != PLEAT_OK) {
            return st;
        }
        conf = item.rest;
    }
    return PLEAT_OK;
}

static const char *variable(const char *name)
{
    return secure_getenv(name);
}

const char *pl_config_runtime_folder(void)
{
    const char *folder = variable("XDG_RUNTIME_DIR");
    return folder && folder[0] == '/' ? folder : NULL;
}

static pleat_status read_strings(const char *conf, pl_config *config)
{
    pleat_status st = read_string("PLEAT_CONF", variable("PLEAT_CONF"), config);
    return st == PLEAT_OK ? read_string("conf", conf, config) : st;
}

/* Let each option table check its values as a whole, for the allocator `chosen`. */
static pleat_status check_for(const pl_config *config, const pl_allocator_ops *chosen)
{
    char why[sizeof pl_driver_last_error()->detail];
    const pl_option_table *table;
    for (unsigned i = 0; (table = pl_option_table_at(i)) != NULL; i++) {
        if (table->check && table->check(&config->options, chosen) != PLEAT_OK) {
            memcpy(why, pl_driver_last_error()->detail, sizeof why);
            pl_driver_clear_error(); /* else the error would repeat it as the driver's detail */
            return pl_error_set(PLEAT_ECONF, 0, "%s", why);
        }
    }
    return PLEAT_OK;
}

static pleat_status check_together(const pl_config *config)
{
    if (config->allocator->needs_host && config->memory != PL_MEMORY_HOST) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "allocator:%s is a cache of pinned memory of the host: it needs "
                            "memory:host",
                            config->allocator->name);
    }
    pleat_status st = check_for(config, config->allocator);
    return st == PLEAT_OK && config->fallback ? check_for(config, config->fallback) : st;
}

/* The strings are read twice. The first reading learns the allocator, since only an mxnet allocator
 * makes the reading of MXNet's variables strict. The second reading overrides the variables. */
pleat_status pl_config_read(const char *conf, pl_config *out)
{
    pl_config config = { .driver = PL_DRIVER_AUTO, .allocator = pl_allocator_find("pleat") };
    config.device.chunk_granules = 1;
    config.metrics_ms = 1000;
    config.device.handle_rdma = PL_DEMAND_IF_ABLE;
    config.device.host_node = PL_HOST_NODE_NEAR;
    pl_allocator_options_init(&config.options);
    pl_config chosen = config;
    pleat_status st = read_strings(conf, &chosen);
    if (st == PLEAT_OK) {
        st = pl_mxnet_read(variable, pl_mxnet_is_chosen(&chosen), &config);
    }
    if (st == PLEAT_OK) {
        st = read_strings(conf, &config);
    }
    if (st == PLEAT_OK) {
        st = pl_mxnet_resolve(variable, &config);
    }
    config.device.is_host = config.memory == PL_MEMORY_HOST;
    if (config.device.is_host && !config.fallback) { /* drivers that map no host memory pin it */
        config.fallback = pl_allocator_find("torch-native");
    }
    if (st == PLEAT_OK) {
        st = check_together(&config);
    }
    if (st == PLEAT_OK) {
        *out = config;
    }
    return st;
}

size_t pl_config_write(const pl_config *config, char *text, size_t capacity)
{
    pl_text whole;
    pl_text_init(&whole, text, capacity);
    pl_key key;
    for (unsigned i = 0; pl_key_at(i, &key); i++) {
        if (pl_key_is_written(&key, config)) {
            pl_text_add(&whole, "%s%s:", whole.n > 0 ? "," : "", key.option->name);
            pl_key_write(&key, config, &whole);
        }
    }
    return whole.n + 1;
}

uint64_t pl_config_limit(const pl_config *config, uint64_t total_bytes)
{
    const uint64_t whole = PL_WHOLE_PARTS;
    if (config->limit_parts == 0) {
        return config->limit_bytes;
    }
    uint64_t bytes = total_bytes / whole * config->limit_parts +
                     total_bytes % whole * config->limit_parts / whole;
    return bytes > 0 ? bytes : 1;
}
