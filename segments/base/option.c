/* option.c - reads and writes the values of an allocator's own options. No lock, no memory. */
#include "segments/base/option.h"

#include <string.h>

#include "vmm/base/assert.h"

void pl_option_store(const pl_option *option, void *own, uint64_t value)
{
    char *at = (char *)own + option->offset;
    bool is_set = value != 0;
    uint32_t narrow = (uint32_t)value;
    switch (option->bytes) {
    case sizeof is_set:
        memcpy(at, &is_set, sizeof is_set);
        break;
    case sizeof narrow:
        memcpy(at, &narrow, sizeof narrow);
        break;
    default:
        pl_assert(option->bytes == sizeof value);
        memcpy(at, &value, sizeof value);
    }
}

uint64_t pl_option_load(const pl_option *option, const void *own)
{
    const char *at = (const char *)own + option->offset;
    bool is_set;
    uint32_t narrow;
    uint64_t value;
    switch (option->bytes) {
    case sizeof is_set:
        memcpy(&is_set, at, sizeof is_set);
        return is_set;
    case sizeof narrow:
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    default:
        pl_assert(option->bytes == sizeof value);
        memcpy(&value, at, sizeof value);
        return value;
    }
}

static void reset(const pl_option *option, void *own)
{
    char *at = (char *)own + option->offset;
    double part = (double)option->initial;
    unsigned divisions[PL_N_DIVISIONS];
    switch (option->kind) {
    case PL_OPTION_PART:
    case PL_OPTION_SHARE:
        pl_assert(option->bytes == sizeof part);
        memcpy(at, &part, sizeof part);
        break;
    case PL_OPTION_DIVISIONS:
        pl_assert(option->bytes == sizeof divisions);
        for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
            divisions[i] = (unsigned)option->initial;
        }
        memcpy(at, divisions, sizeof divisions);
        break;
    default:
        pl_option_store(option, own, option->initial * (option->scale ? option->scale : 1));
    }
}

void pl_options_reset(const pl_option_table *table, void *own)
{
    memset(own, 0, table->bytes);
    for (unsigned i = 0; i < table->n; i++) {
        if (!table->options[i].is_second_spelling) {
            reset(&table->options[i], own);
        }
    }
}
