/* mxnet.c - MXNet's environment variables. No lock, no memory.
 * Source: MXNet 2, src/storage/storage.cc; docs/.../env_var.md for the second spellings. */
#include "api/config/mxnet.h"

#include <string.h>

#include "api/base/error.h"
#include "api/config/key.h"

static const char key_prefix[] = "mxnet_";
static const char pool_type[] = "MXNET_GPU_MEM_POOL_TYPE";

const pl_allocator_ops pl_mxnet_alias = { .name = "mxnet" };

static bool is_mxnet(const pl_allocator_ops *ops)
{
    return ops && (strncmp(ops->name, "mxnet", 5) == 0);
}

bool pl_mxnet_is_chosen(const pl_config *config)
{
    return is_mxnet(config->allocator) || is_mxnet(config->fallback);
}

/* The key's name in upper case. */
static void name_variable(const char *key, char out[PL_KEY_NAME_BYTES])
{
    size_t n = 0;
    for (; key[n] != '\0' && n < PL_KEY_NAME_BYTES - 1; n++) {
        out[n] = key[n] >= 'a' && key[n] <= 'z' ? (char)(key[n] - 'a' + 'A') : key[n];
    }
    out[n] = '\0';
}

static pl_span value_of(pl_variable_fn variable, const char *name)
{
    const char *value = variable(name);
    return value ? pl_span_trimmed((pl_span){ value, strlen(value) }) : (pl_span){ NULL, 0 };
}

/* `given`: the last key set by a variable; its option is NULL if no variable was set. */
static pleat_status read_key(pl_variable_fn variable, bool is_strict, const pl_key *key,
                             pl_key *given, pl_config *config)
{
    char name[PL_KEY_NAME_BYTES];
    name_variable(key->option->name, name);
    pl_span value = value_of(variable, name);
    if (value.n == 0) {
        return PLEAT_OK;
    }
    uint64_t before = pl_key_load(key, config);
    if (!pl_key_read(key, value, false, config)) {
        return is_strict ? pl_key_refuse(name, key, value) : PLEAT_OK;
    }
    if (is_strict && given->option && pl_key_is_same(given, key) &&
        pl_key_load(key, config) != before) {
        char other[PL_KEY_NAME_BYTES];
        name_variable(given->option->name, other);
        return pl_error_set(PLEAT_ECONF, 0,
                            "the variables %s and %s are two spellings of the same and differ",
                            other, name);
    }
    *given = *key;
    return PLEAT_OK;
}

pleat_status pl_mxnet_read(pl_variable_fn variable, bool is_strict, pl_config *config)
{
    pl_key given = { .option = NULL }; /* the two spellings are neighbours in the table */
    pl_key key;
    pleat_status st = PLEAT_OK;
    for (unsigned i = 0; st == PLEAT_OK && pl_key_at(i, &key); i++) {
        if (strncmp(key.option->name, key_prefix, sizeof key_prefix - 1) == 0) {
            st = read_key(variable, is_strict, &key, &given, config);
        }
    }
    return st;
}

/* MXNet's documentation has the plural, its source the singular. */
static pleat_status read_use_naive(pl_variable_fn variable, bool *out)
{
    static const char *const names[] = { "MXNET_USE_NAIVE_STORAGE_MANAGER",
                                         "MXNET_USE_NAIVE_STORAGE_MANAGERS" };
    uint64_t values[2] = { 0, 0 };
    bool is_given[2];
    for (int i = 0; i < 2; i++) {
        pl_span value = value_of(variable, names[i]);
        is_given[i] = value.n != 0;
        if (is_given[i] && !pl_parse_number(value, INT32_MAX, &values[i])) {
            return pl_error_set(PLEAT_ECONF, 0, "%s: bad value '%.*s'; allowed: 0, 1", names[i],
                                pl_key_echo_bytes(value), value.at);
        }
    }
    if (is_given[0] && is_given[1] && values[0] != values[1]) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "the variables %s and %s are two spellings of the same and differ",
                            names[0], names[1]);
    }
    *out = values[0] != 0 || values[1] != 0;
    return PLEAT_OK;
}

static pleat_status choose_pool(pl_variable_fn variable, const char **out)
{
    static const char *const types[][2] = { { "Naive", "mxnet-naive" },
                                            { "Round", "mxnet-round" },
                                            { "Unpooled", "unpooled" } };
    bool use_naive = false;
    pleat_status st = read_use_naive(variable, &use_naive);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_span value = value_of(variable, pool_type);
    const char *chosen = value.n == 0 ? types[0][1] : NULL;
    for (int i = 0; i < 3; i++) {
        if (pl_span_is(value, types[i][0])) {
            chosen = types[i][1];
        }
    }
    if (!chosen) {
        return pl_error_set(PLEAT_ECONF, 0, "%s: bad value '%.*s'; allowed: Naive, Round, Unpooled",
                            pool_type, pl_key_echo_bytes(value), value.at);
    }
    *out = use_naive ? types[2][1] : chosen;
    return PLEAT_OK;
}

pleat_status pl_mxnet_resolve(pl_variable_fn variable, pl_config *config)
{
    const char *name = NULL;
    if (config->allocator != &pl_mxnet_alias) {
        return PLEAT_OK;
    }
    pleat_status st = choose_pool(variable, &name);
    if (st != PLEAT_OK) {
        return st;
    }
    config->allocator = pl_allocator_find(name);
    if (!config->allocator) {
        return pl_error_set(PLEAT_ECONF, 0, "allocator:mxnet means %s, which is not built in",
                            name);
    }
    return PLEAT_OK;
}
