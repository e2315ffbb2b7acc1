/* config_write.c - values of keys as text: what is allowed, and what is set. */
#include "api/config_key.h"

void pl_key_say_allowed(const pl_key *key, pl_text *text)
{
    const char *separator = "";
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
        break;
    case PL_KEY_BOOL:
        pl_text_add(text, "True, False");
        break;
    case PL_KEY_PART:
        pl_text_add(text, "a fraction below 1 such as 0.8, 0");
        break;
    case PL_KEY_POWER:
        pl_text_add(text, "a power of two up to %llu, 0", (unsigned long long)key->most);
        break;
    case PL_KEY_LIMIT:
        pl_text_add(text, "a fraction such as 0.9, a size such as 8G (at least 4096), none");
        break;
    case PL_KEY_ALLOCATOR:
    case PL_KEY_FALLBACK:
        for (unsigned i = 0; pl_allocator_name(i); i++) {
            if (key->kind == PL_KEY_ALLOCATOR ||
                !pl_allocator_find(pl_allocator_name(i))->needs_vmm) {
                pl_text_add(text, "%s%s", separator, pl_allocator_name(i));
                separator = ", ";
            }
        }
        pl_text_add(text, "%s", key->kind == PL_KEY_FALLBACK ? ", none" : "");
        break;
    case PL_KEY_SIM:
        pl_text_add(text, "[key:value,...] of at most %d characters", PL_SIM_CONF_BYTES - 1);
        break;
    }
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
        write_parts((uint32_t)(config->options.garbage_collection_threshold * PL_WHOLE_PARTS + 0.5),
                    text);
        break;
    case PL_KEY_POWER:
        pl_text_add(text, "%u", config->options.roundup_divisions[0]);
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
