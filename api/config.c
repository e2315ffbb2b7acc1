/* config.c - strict reader of the configuration; the library's only look into the environment for
 * it. One table of keys drives reading, writing and the texts of errors. No lock, no memory. */
#include "api/config.h"

#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "api/parse.h"
#include "api/text.h"

typedef enum key_kind {
    KEY_WORD,      /* one of `words`, stored as its index */
    KEY_NUMBER,    /* least..most, stored times `scale` */
    KEY_SIZE,      /* bytes, not 0 */
    KEY_BOOL,      /* True or False */
    KEY_PART,      /* a fraction below 1, or 0 */
    KEY_POWER,     /* a power of two up to `most`, or 0 */
    KEY_LIMIT,     /* fraction, size or none */
    KEY_ALLOCATOR, /* any allocator */
    KEY_FALLBACK,  /* an allocator that needs no VMM, or none */
    KEY_SIM,       /* the simulator's configuration in brackets */
} key_kind;

typedef struct conf_key {
    const char *name;
    key_kind kind;
    size_t offset; /* of the field in pl_config */
    size_t bytes;  /* of the field */
    uint64_t least;
    uint64_t most;
    uint64_t scale;
    const char *const *words; /* in the order of the enum */
} conf_key;

#define FIELD(member)                                                                              \
    .offset = offsetof(pl_config, member), .bytes = sizeof(((pl_config *)0)->member)

static const char *const driver_words[] = { "auto", "cuda", "sim", NULL };
static const char *const growth_words[] = { "balanced", "frugal", "ample", NULL };
static const char *const cross_words[] = { "order", "settled", NULL };

/* clang-format off */
static const conf_key keys[] = {
    { "driver", KEY_WORD, FIELD(driver), .words = driver_words },
    { "sim", KEY_SIM, FIELD(sim_conf) },
    { "allocator", KEY_ALLOCATOR, FIELD(allocator) },
    { "fallback", KEY_FALLBACK, FIELD(fallback) },
    { "limit", KEY_LIMIT, FIELD(limit_bytes), .least = 4096 },
    { "growth", KEY_WORD, FIELD(options.growth), .words = growth_words },
    { "cross_stream", KEY_WORD, FIELD(options.cross_stream), .words = cross_words },
    { "wait_ms", KEY_NUMBER, FIELD(options.wait_ms), .most = 86400000, .scale = 1 },
    { "chunk_granules", KEY_NUMBER, FIELD(device.chunk_granules), .least = 1, .most = 65536,
      .scale = 1 },
    { "address_budget", KEY_SIZE, FIELD(device.address_budget_bytes) },
    { "shareable", KEY_BOOL, FIELD(device.handle_posix_fd) },
    { "rdma", KEY_BOOL, FIELD(device.handle_rdma) },
    { "time_calls", KEY_BOOL, FIELD(time_calls) },
    { "small_kib", KEY_NUMBER, FIELD(options.small_bytes), .most = 1024, .scale = 1024 },
    { "token_refill", KEY_NUMBER, FIELD(options.token_refill), .most = 1000000, .scale = 1 },
    { "token_cap", KEY_NUMBER, FIELD(options.token_cap), .most = 1000000, .scale = 1 },
    { "order_interval", KEY_NUMBER, FIELD(options.order_interval), .least = 1, .most = 1000000000,
      .scale = 1 },
    { "keep_permille", KEY_NUMBER, FIELD(options.keep_permille), .most = 100000, .scale = 1 },
    { "max_split_size_mb", KEY_NUMBER, FIELD(options.max_split_bytes), .least = 20,
      .most = 1 << 24, .scale = 1 << 20 },
    { "max_non_split_rounding_mb", KEY_NUMBER, FIELD(options.max_non_split_rounding_bytes),
      .least = 20, .most = 1 << 24, .scale = 1 << 20 },
    { "garbage_collection_threshold", KEY_PART, FIELD(options.garbage_collection_threshold) },
    { "roundup_power2_divisions", KEY_POWER, FIELD(options.roundup_divisions), .most = 64 },
};
/* clang-format on */

enum { N_KEYS = sizeof keys / sizeof keys[0], ECHO_BYTES = 64, ALLOWED_BYTES = 512 };
enum { WHOLE_PARTS = 1000000000 }; /* of a fraction */

static void store(pl_config *config, const conf_key *key, uint64_t value)
{
    char *field = (char *)config + key->offset;
    if (key->bytes == sizeof(uint32_t)) {
        uint32_t narrow = (uint32_t)value;
        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &value, sizeof value);
    }
}

static uint64_t load(const pl_config *config, const conf_key *key)
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

static bool read_word(pl_config *config, const conf_key *key, pl_span value)
{
    for (unsigned i = 0; key->words[i]; i++) {
        if (pl_span_is(value, key->words[i])) {
            store(config, key, i);
            return true;
        }
    }
    return false;
}

static bool read_number(pl_config *config, const conf_key *key, pl_span value)
{
    uint64_t number;
    if (!pl_parse_number(value, key->most, &number) || number < key->least) {
        return false;
    }
    store(config, key, number * key->scale);
    return true;
}

static bool read_size(pl_config *config, const conf_key *key, pl_span value)
{
    uint64_t bytes;
    if (!pl_parse_size(value, &bytes) || bytes == 0) {
        return false;
    }
    store(config, key, bytes);
    return true;
}

static bool read_limit(pl_config *config, const conf_key *key, pl_span value)
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

static bool read_part(pl_config *config, pl_span value)
{
    uint32_t parts = 0;
    if (!pl_span_is(value, "0") && (!pl_parse_fraction(value, &parts) || parts == WHOLE_PARTS)) {
        return false;
    }
    config->options.garbage_collection_threshold = (double)parts / WHOLE_PARTS;
    return true;
}

static bool read_power(pl_config *config, const conf_key *key, pl_span value)
{
    uint64_t power;
    unsigned *divisions = config->options.roundup_divisions;
    if (!pl_parse_number(value, key->most, &power) || (power & (power - 1)) != 0) {
        return false;
    }
    for (size_t i = 0; i < key->bytes / sizeof divisions[0]; i++) {
        divisions[i] = (unsigned)power;
    }
    return true;
}

static bool read_allocator(pl_config *config, const conf_key *key, pl_span value)
{
    if (key->kind == KEY_FALLBACK && pl_span_is(value, "none")) {
        config->fallback = NULL;
        return true;
    }
    const char *name;
    for (unsigned i = 0; (name = pl_allocator_name(i)) != NULL; i++) {
        const pl_allocator_ops *ops = pl_allocator_find(name);
        if (!pl_span_is(value, name) || (key->kind == KEY_FALLBACK && ops->needs_vmm)) {
            continue;
        }
        if (key->kind == KEY_FALLBACK) {
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

static bool read_value(pl_config *config, const conf_key *key, pl_span value, bool is_bracketed)
{
    if (is_bracketed != (key->kind == KEY_SIM)) {
        return false;
    }
    switch (key->kind) {
    case KEY_WORD:
        return read_word(config, key, value);
    case KEY_NUMBER:
        return read_number(config, key, value);
    case KEY_SIZE:
        return read_size(config, key, value);
    case KEY_BOOL:
        return pl_parse_bool(value, (bool *)((char *)config + key->offset));
    case KEY_PART:
        return read_part(config, value);
    case KEY_POWER:
        return read_power(config, key, value);
    case KEY_LIMIT:
        return read_limit(config, key, value);
    case KEY_ALLOCATOR:
    case KEY_FALLBACK:
        return read_allocator(config, key, value);
    case KEY_SIM:
        return read_sim(config, value);
    }
    return false;
}

/* ---- texts of errors ---- */

static void say_allowed(pl_text *text, const conf_key *key)
{
    const char *separator = "";
    switch (key->kind) {
    case KEY_WORD:
        for (unsigned i = 0; key->words[i]; i++) {
            pl_text_add(text, "%s%s", i > 0 ? ", " : "", key->words[i]);
        }
        break;
    case KEY_NUMBER:
        pl_text_add(text, "a number from %llu to %llu", (unsigned long long)key->least,
                    (unsigned long long)key->most);
        break;
    case KEY_SIZE:
        pl_text_add(text, "a size such as 512M or 8GiB");
        break;
    case KEY_BOOL:
        pl_text_add(text, "True, False");
        break;
    case KEY_PART:
        pl_text_add(text, "a fraction below 1 such as 0.8, 0");
        break;
    case KEY_POWER:
        pl_text_add(text, "a power of two up to %llu, 0", (unsigned long long)key->most);
        break;
    case KEY_LIMIT:
        pl_text_add(text, "a fraction such as 0.9, a size such as 8G (at least 4096), none");
        break;
    case KEY_ALLOCATOR:
    case KEY_FALLBACK:
        for (unsigned i = 0; pl_allocator_name(i); i++) {
            if (key->kind == KEY_ALLOCATOR || !pl_allocator_find(pl_allocator_name(i))->needs_vmm) {
                pl_text_add(text, "%s%s", separator, pl_allocator_name(i));
                separator = ", ";
            }
        }
        pl_text_add(text, "%s", key->kind == KEY_FALLBACK ? ", none" : "");
        break;
    case KEY_SIM:
        pl_text_add(text, "[key:value,...] of at most %d characters", PL_SIM_CONF_BYTES - 1);
        break;
    }
}

static int echo_bytes(pl_span span)
{
    return span.n < ECHO_BYTES ? (int)span.n : ECHO_BYTES;
}

static pleat_status refuse_value(const char *source, const conf_key *key, pl_span value)
{
    char allowed[ALLOWED_BYTES];
    pl_text text;
    pl_text_init(&text, allowed, sizeof allowed);
    say_allowed(&text, key);
    return pl_error_set(PLEAT_ECONF, 0, "%s: bad value '%.*s' of the key '%s'; allowed: %s", source,
                        echo_bytes(value), value.at, key->name, allowed);
}

static pleat_status refuse_key(const char *source, pl_span name)
{
    char allowed[ALLOWED_BYTES];
    pl_text text;
    pl_text_init(&text, allowed, sizeof allowed);
    for (unsigned i = 0; i < N_KEYS; i++) {
        pl_text_add(&text, "%s%s", i > 0 ? ", " : "", keys[i].name);
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

static pleat_status read_item(const char *source, const conf_item *item, pl_config *config,
                              bool seen[N_KEYS])
{
    unsigned at = 0;
    while (at < N_KEYS && !pl_span_is(item->name, keys[at].name)) {
        at++;
    }
    if (at == N_KEYS) {
        return refuse_key(source, item->name);
    }
    if (seen[at]) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "%s: the key '%s' is given twice, the second time with '%.*s'", source,
                            keys[at].name, echo_bytes(item->value), item->value.at);
    }
    seen[at] = true;
    if (!read_value(config, &keys[at], item->value, item->is_bracketed)) {
        return refuse_value(source, &keys[at], item->value);
    }
    return PLEAT_OK;
}

static pleat_status read_string(const char *source, const char *conf, pl_config *config)
{
    bool seen[N_KEYS] = { false };
    if (!conf || pl_span_trimmed((pl_span){ conf, strlen(conf) }).n == 0) {
        return PLEAT_OK;
    }
    while (conf) {
        conf_item item = { .rest = NULL };
        pleat_status st = split_item(source, conf, &item);
        if (st == PLEAT_OK) {
            st = read_item(source, &item, config, seen);
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

/* ---- writing ---- */

static void write_parts(uint32_t parts, pl_text *text)
{
    if (parts == WHOLE_PARTS) {
        pl_text_add(text, "1");
    } else if (parts == 0) {
        pl_text_add(text, "0");
    } else {
        pl_text_add(text, "0.%09u", parts);
    }
}

static void write_limit(const pl_config *config, pl_text *text)
{
    if (config->limit_parts != 0) {
        write_parts(config->limit_parts, text);
    } else if (config->limit_bytes != 0) {
        pl_text_add(text, "%llu", (unsigned long long)config->limit_bytes);
    } else {
        pl_text_add(text, "none");
    }
}

/* Keys that were never given and whose default has no spelling are left out. */
static bool is_written(const pl_config *config, const conf_key *key)
{
    switch (key->kind) {
    case KEY_SIM:
        return config->has_sim_conf;
    case KEY_SIZE:
        return load(config, key) != 0;
    case KEY_NUMBER:
        return load(config, key) >= key->least;
    default:
        return true;
    }
}

static void write_value(const pl_config *config, const conf_key *key, pl_text *text)
{
    switch (key->kind) {
    case KEY_WORD:
        pl_text_add(text, "%s", key->words[load(config, key)]);
        break;
    case KEY_NUMBER:
        pl_text_add(text, "%llu", (unsigned long long)(load(config, key) / key->scale));
        break;
    case KEY_SIZE:
        pl_text_add(text, "%llu", (unsigned long long)load(config, key));
        break;
    case KEY_BOOL:
        pl_text_add(text, "%s",
                    *(const bool *)((const char *)config + key->offset) ? "True" : "False");
        break;
    case KEY_PART:
        write_parts((uint32_t)(config->options.garbage_collection_threshold * WHOLE_PARTS + 0.5),
                    text);
        break;
    case KEY_POWER:
        pl_text_add(text, "%u", config->options.roundup_divisions[0]);
        break;
    case KEY_LIMIT:
        write_limit(config, text);
        break;
    case KEY_ALLOCATOR:
        pl_text_add(text, "%s", config->allocator->name);
        break;
    case KEY_FALLBACK:
        pl_text_add(text, "%s", config->fallback ? config->fallback->name : "none");
        break;
    case KEY_SIM:
        pl_text_add(text, "[%s]", config->sim_conf);
        break;
    }
}

size_t pl_config_write(const pl_config *config, char *text, size_t capacity)
{
    pl_text whole;
    pl_text_init(&whole, text, capacity);
    for (unsigned i = 0; i < N_KEYS; i++) {
        if (is_written(config, &keys[i])) {
            pl_text_add(&whole, "%s%s:", whole.n > 0 ? "," : "", keys[i].name);
            write_value(config, &keys[i], &whole);
        }
    }
    return whole.n + 1;
}

uint64_t pl_config_limit(const pl_config *config, uint64_t total_bytes)
{
    const uint64_t whole = WHOLE_PARTS;
    if (config->limit_parts == 0) {
        return config->limit_bytes;
    }
    uint64_t bytes = total_bytes / whole * config->limit_parts +
                     total_bytes % whole * config->limit_parts / whole;
    return bytes > 0 ? bytes : 1;
}
