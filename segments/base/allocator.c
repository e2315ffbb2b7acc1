/* allocator.c - finds allocators by name, and places their options in pl_allocator_options. */
#include "segments/base/allocator.h"

#include <string.h>

#include "vmm/base/assert.h"

static const pl_allocator_ops *const host_allocators[] = { PL_HOST_ALLOCATOR_LIST(
    PL_ALLOCATOR_ADDRESS) NULL };

static const pl_allocator_ops *find_in(const pl_allocator_ops *const *list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0) {
        list++;
    }
    return *list;
}

const pl_allocator_ops *pl_allocator_find(const char *name)
{
    const pl_allocator_ops *found = find_in(pl_allocators, name);
    return found ? found : find_in(host_allocators, name);
}

const char *pl_host_allocator_name(unsigned index)
{
    return index < sizeof host_allocators / sizeof host_allocators[0] - 1
               ? host_allocators[index]->name
               : NULL;
}

const char *pl_allocator_name(unsigned index)
{
    for (unsigned i = 0; pl_allocators[i]; i++) {
        if (i == index) {
            return pl_allocators[i]->name;
        }
    }
    return NULL;
}

/* ---- options --------------------------------------------------------------------------------- */

/* No earlier allocator has the same table. */
static bool is_first_with(unsigned index, const pl_option_table *table)
{
    for (unsigned i = 0; i < index; i++) {
        if (pl_allocators[i]->options == table) {
            return false;
        }
    }
    return true;
}

const pl_option_table *pl_option_table_at(unsigned index)
{
    for (unsigned i = 0; pl_allocators[i]; i++) {
        const pl_option_table *table = pl_allocators[i]->options;
        if (table && is_first_with(i, table) && index-- == 0) {
            return table;
        }
    }
    return NULL;
}

size_t pl_own_offset(const pl_option_table *table)
{
    size_t bytes = 0;
    const pl_option_table *other;
    for (unsigned i = 0; (other = pl_option_table_at(i)) != table; i++) {
        pl_assert(other); /* else no allocator of the list has the table */
        bytes += other->bytes;
    }
    pl_assert(bytes + table->bytes <= PL_OWN_BYTES);
    return offsetof(pl_allocator_options, own) + bytes;
}

void pl_own_get(const pl_allocator_options *options, const pl_option_table *table, void *own)
{
    memcpy(own, (const char *)options + pl_own_offset(table), table->bytes);
}

void pl_own_set(pl_allocator_options *options, const pl_option_table *table, const void *own)
{
    memcpy((char *)options + pl_own_offset(table), own, table->bytes);
}

void pl_allocator_options_init(pl_allocator_options *options)
{
    const pl_option_table *table;
    *options = (pl_allocator_options){ .wait_ms = 1000 };
    for (unsigned i = 0; (table = pl_option_table_at(i)) != NULL; i++) {
        pl_options_reset(table, (char *)options + pl_own_offset(table));
    }
}

pl_cache_options pl_cache_options_of(const pl_allocator_ops *ops,
                                     const pl_allocator_options *options)
{
    pl_cache_options told = { .max_split_bytes = 0 };

    if (ops->read_cache_options != NULL) {
        ops->read_cache_options(options, &told);
    }
    return told;
}
