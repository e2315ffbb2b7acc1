/* write.c - values of keys as text: what is allowed, and what is set. */
#include <string.h>

#include "api/config/divisions.h"
#include "api/config/key.h"
#include "api/config/mxnet.h"
#include "api/error.h"

enum { ECHO_BYTES = 64, ALLOWED_BYTES = 512 };

static void say_allocators(bool is_fallback, pl_text *text)
{
    const char *name;
    for (unsigned i = 0; (name = pl_allocator_name(i)) != NULL; i++) {
        if (!is_fallback || !pl_allocator_find(name)->needs_vmm) {
            pl_text_add(text, "%s, ", name);
        }
    }
    pl_text_add(text, "%s", is_fallback ? "none" : pl_mxnet_alias.name);
}

static void say_allowed(const pl_key *key, pl_text *text)
{
    switch (key->kind) {
    case PL_KEY_WORD:
        for (unsigned i = 0; key->words[i]; i++) {
            pl_text_add(text, "%s%s", i > 0 ? ", " : "", key->words[i]);
        }
        break;
    case PL_KEY_NUMBER:
        pl_text_add(text, "a number from %llu to %llu", (unsigned long long)key->least,
                    (unsigned long long)key->most);
        break;
    case PL_KEY_SIZE:
        pl_text_add(text, "a size such as 512M or 8GiB");
        if (key->least > 0) {
            pl_text_add(text, " (at least %llu)", (unsigned long long)key->least);
        }
        break;
    case PL_KEY_BOOL:
        pl_text_add(text, "True, False");
        break;
    case PL_KEY_PART:
        pl_text_add(text, "a fraction below 1 such as 0.8, 0");
        break;
    case PL_KEY_SHARE:
        pl_text_add(text, "a fraction such as 0.8, 1");
        break;
    case PL_KEY_DIVISIONS:
        pl_text_add(text, "a power of two up to %llu, 0, a list by MiB [256:1,512:2,>:4]",
                    (unsigned long long)key->most);
        break;
    case PL_KEY_LIMIT:
        pl_text_add(text, "a fraction such as 0.9, a size such as 8G (at least 4096), none");
        break;
    case PL_KEY_ALLOCATOR:
    case PL_KEY_FALLBACK:
        say_allocators(key->kind == PL_KEY_FALLBACK, text);
        break;
    case PL_KEY_SIM:
        pl_text_add(text, "[key:value,...] of at most %d characters", PL_SIM_CONF_BYTES - 1);
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
    return pl_error_set(PLEAT_ECONF, 0, "%s: bad value '%.*s' of the key '%s'; allowed: %s", source,
                        pl_key_echo_bytes(value), value.at, key->name, allowed);
}

static void write_parts(uint32_t parts, pl_text *text)
{
    if (parts == PL_WHOLE_PARTS) {
        pl_text_add(text, "1");
    } else if (parts == 0) {
        pl_text_add(text, "0");
    } else {
        pl_text_add(text, "0.%09u", parts);
    }
}

static void write_fraction(const pl_key *key, const pl_config *config, pl_text *text)
{
    double fraction;
    memcpy(&fraction, (const char *)config + key->offset, sizeof fraction);
    write_parts((uint32_t)(fraction * PL_WHOLE_PARTS + 0.5), text);
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

bool pl_key_is_written(const pl_key *key, const pl_config *config)
{
    if (key->is_second_spelling) {
        return false;
    }
    switch (key->kind) {
    case PL_KEY_SIM:
        return config->has_sim_conf;
    case PL_KEY_SIZE:
        return pl_key_load(key, config) != 0;
    case PL_KEY_NUMBER:
        return pl_key_load(key, config) >= key->least;
    default:
        return true;
    }
}

void pl_key_write(const pl_key *key, const pl_config *config, pl_text *text)
{
    switch (key->kind) {
    case PL_KEY_WORD:
        pl_text_add(text, "%s", key->words[pl_key_load(key, config)]);
        break;
    case PL_KEY_NUMBER:
        pl_text_add(text, "%llu", (unsigned long long)(pl_key_load(key, config) / key->scale));
        break;
    case PL_KEY_SIZE:
        pl_text_add(text, "%llu", (unsigned long long)pl_key_load(key, config));
        break;
    case PL_KEY_BOOL:
        pl_text_add(text, "%s",
                    *(const bool *)((const char *)config + key->offset) ? "True" : "False");
        break;
    case PL_KEY_PART:
    case PL_KEY_SHARE:
        write_fraction(key, config, text);
        break;
    case PL_KEY_DIVISIONS:
        pl_divisions_write(config->options.roundup_divisions, text);
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
    }
}
