/* write.c - values of keys as text: allowed values, and set values. */
#include "api/base/error.h"
#include "api/config/hint.h"
#include "api/config/key.h"
#include "api/config/mxnet.h"

enum { ECHO_BYTES = 64, ALLOWED_BYTES = 512 };

static void say_allocators(bool is_fallback, pl_text *text)
{
    const char *name;
    for (unsigned i = 0; (name = pl_allocator_name(i)) != NULL; i++) {
        if (!is_fallback || !pl_allocator_find(name)->needs_vmm) {
            pl_text_add(text, "%s, ", name);
        }
    }
    for (unsigned i = 0; !is_fallback && (name = pl_host_allocator_name(i)); i++) {
        pl_text_add(text, "%s, ", name);
    }
    pl_text_add(text, "%s", is_fallback ? "none" : pl_mxnet_alias.name);
}

static void say_allowed(const pl_key *key, pl_text *text)
{
    switch (key->kind) {
    case PL_KEY_OPTION:
        pl_option_say(key->option, text);
        break;
    case PL_KEY_LIMIT:
        pl_text_add(text, "a fraction such as 0.9, a size such as 8G (at least %llu), none",
                    (unsigned long long)key->option->least);
        break;
    case PL_KEY_ALLOCATOR:
    case PL_KEY_FALLBACK:
        say_allocators(key->kind == PL_KEY_FALLBACK, text);
        break;
    case PL_KEY_SIM:
        pl_text_add(text, "[key:value,...] of at most %d characters", PL_SIM_CONF_BYTES - 1);
        break;
    case PL_KEY_METRICS:
        pl_text_add(text,
                    "a path of at most %d characters, in which %%p is the process and %%%% "
                    "a %%; auto, none",
                    PL_METRICS_BYTES - 1);
        break;
    case PL_KEY_POLICY:
        pl_text_add(text, "a path with a slash, of at most %d characters; none",
                    PL_METRICS_BYTES - 1);
        break;
    }
}

int pl_key_echo_bytes(pl_span span)
{
    return span.n < ECHO_BYTES ? (int)span.n : ECHO_BYTES;
}

pleat_status pl_key_refuse(const char *source, const pl_key *key, pl_span value)
{
    char allowed[ALLOWED_BYTES];
    pl_text text;
    pl_text_init(&text, allowed, sizeof allowed);
    say_allowed(key, &text);
    bool is_size = key->kind == PL_KEY_LIMIT ||
                   (key->kind == PL_KEY_OPTION && key->option->kind == PL_OPTION_SIZE);
    char hint[PL_HINT_BYTES] = "";
    pl_text_init(&text, hint, sizeof hint);
    bool has_hint = is_size && pl_hint_size(value, &text);
    return pl_error_set(PLEAT_ECONF, 0, "%s: bad value '%.*s' of the key '%s'%s%s; allowed: %s",
                        source, pl_key_echo_bytes(value), value.at, key->option->name,
                        has_hint ? ": " : "", hint, allowed);
}

static void write_limit(const pl_config *config, pl_text *text)
{
    if (config->limit_parts != 0) {
        pl_parts_write(config->limit_parts, text);
    } else if (config->limit_bytes != 0) {
        pl_text_add(text, "%llu", (unsigned long long)config->limit_bytes);
    } else {
        pl_text_add(text, "none");
    }
}

bool pl_key_is_written(const pl_key *key, const pl_config *config)
{
    switch (key->kind) {
    case PL_KEY_OPTION:
        return pl_option_is_written(key->option, (const char *)config + key->base);
    case PL_KEY_SIM:
        return config->has_sim_conf;
    case PL_KEY_METRICS:
        return config->metrics[0] != '\0';
    default:
        return true;
    }
}

void pl_key_write(const pl_key *key, const pl_config *config, pl_text *text)
{
    switch (key->kind) {
    case PL_KEY_OPTION:
        pl_option_write(key->option, (const char *)config + key->base, text);
        break;
    case PL_KEY_LIMIT:
        write_limit(config, text);
        break;
    case PL_KEY_ALLOCATOR:
        pl_text_add(text, "%s", config->allocator->name);
        break;
    case PL_KEY_FALLBACK:
        pl_text_add(text, "%s", config->fallback ? config->fallback->name : "none");
        break;
    case PL_KEY_SIM:
        pl_text_add(text, "[%s]", config->sim_conf);
        break;
    case PL_KEY_METRICS:
        pl_text_add(text, "[%s]", config->metrics);
        break;
    case PL_KEY_POLICY:
        pl_text_add(text, config->policy[0] != '\0' ? "[%s]" : "none", config->policy);
        break;
    }
}
