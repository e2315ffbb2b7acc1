/* config.c - strict reader of the configuration; the library's only look into the environment for
 * it. The keys: config_key.c. No lock, no memory. */
#include "api/config.h"

#include <stdlib.h>
#include <string.h>

#include "api/config_key.h"
#include "api/error.h"

enum { ECHO_BYTES = 64, ALLOWED_BYTES = 512 };

static int echo_bytes(pl_span span)
{
    return span.n < ECHO_BYTES ? (int)span.n : ECHO_BYTES;
}

static pleat_status refuse_value(const char *source, const pl_key *key, pl_span value)
{
    char allowed[ALLOWED_BYTES];
    pl_text text;
    pl_text_init(&text, allowed, sizeof allowed);
    pl_key_say_allowed(key, &text);
    return pl_error_set(PLEAT_ECONF, 0, "%s: bad value '%.*s' of the key '%s'; allowed: %s", source,
                        echo_bytes(value), value.at, key->name, allowed);
}

static pleat_status refuse_key(const char *source, pl_span name)
{
    char allowed[ALLOWED_BYTES];
    pl_text text;
    pl_text_init(&text, allowed, sizeof allowed);
    for (unsigned i = 0; pl_key_at(i); i++) {
        pl_text_add(&text, "%s%s", i > 0 ? ", " : "", pl_key_at(i)->name);
    }
    return pl_error_set(PLEAT_ECONF, 0, "%s: unknown key '%.*s'; known: %s", source,
                        echo_bytes(name), name.at, allowed);
}

/* ---- reading strings ---- */

/* One `key:value` and what follows it. */
typedef struct conf_item {
    pl_span name;
    pl_span value;
    bool is_bracketed;
    const char *rest; /* after the comma; NULL after the last item */
} conf_item;

/* Where the value that starts at `at` ends: at a comma outside brackets or at the end. NULL when
 * brackets do not match. */
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
                            echo_bytes(item), item.at);
    }
    const char *start = at + n_name + 1;
    const char *end = end_of_value(start);
    if (!end) {
        return pl_error_set(PLEAT_ECONF, 0, "%s: the brackets of the key '%.*s' do not match",
                            source, echo_bytes(name), name.at);
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

/* Bit i of *seen: the key with that index was given. */
static pleat_status read_item(const char *source, const conf_item *item, pl_config *config,
                              uint64_t *seen)
{
    unsigned at = 0;
    while (pl_key_at(at) && !pl_span_is(item->name, pl_key_at(at)->name)) {
        at++;
    }
    const pl_key *key = pl_key_at(at);
    if (!key) {
        return refuse_key(source, item->name);
    }
    if ((*seen >> at & 1) != 0) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "%s: the key '%s' is given twice, the second time with '%.*s'", source,
                            key->name, echo_bytes(item->value), item->value.at);
    }
    *seen |= UINT64_C(1) << at;
    if (!pl_key_read(key, item->value, item->is_bracketed, config)) {
        return refuse_value(source, key, item->value);
    }
    return PLEAT_OK;
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

pleat_status pl_config_read(const char *conf, pl_config *out)
{
    pl_config config = { .driver = PL_DRIVER_AUTO, .allocator = pl_allocator_find("pleat") };
    config.device.chunk_granules = 1;
    pl_allocator_options_init(&config.options);
    pleat_status st = read_string("PLEAT_CONF", getenv("PLEAT_CONF"), &config);
    if (st == PLEAT_OK) {
        st = read_string("conf", conf, &config);
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
    for (unsigned i = 0; pl_key_at(i); i++) {
        const pl_key *key = pl_key_at(i);
        if (pl_key_is_written(key, config)) {
            pl_text_add(&whole, "%s%s:", whole.n > 0 ? "," : "", key->name);
            pl_key_write(key, config, &whole);
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
