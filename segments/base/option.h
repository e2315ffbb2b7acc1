/* option.h - an allocator's own options. One row gives an option's name, form, bounds, explanation
 * and place in memory.
 *
 * An allocator keeps the values in its own struct and names a table of rows in its
 * pl_allocator_ops. The configuration reads, checks and writes options by these rows alone.
 * Allocators that share a table share the values, too. docs/allocators.md shows how a table is
 * written. */
#ifndef PLEAT_SEGMENTS_OPTION_H
#define PLEAT_SEGMENTS_OPTION_H

#include <stddef.h>

#include "vmm/base/pleat_types.h"

struct pl_allocator_ops;
struct pl_allocator_options;

typedef enum pl_option_kind {
    PL_OPTION_WORD,      /* an enum: an index into `words` */
    PL_OPTION_NUMBER,    /* uint32_t or uint64_t: least..most, stored times `scale` */
    PL_OPTION_SIZE,      /* uint64_t: bytes, at least `least` and not 0 */
    PL_OPTION_BOOL,      /* bool: True or False */
    PL_OPTION_PART,      /* double: a fraction below 1, or 0 */
    PL_OPTION_SHARE,     /* double: a fraction above 0, or 1 */
    PL_OPTION_DIVISIONS, /* unsigned[PL_N_DIVISIONS]: powers of two up to `most`, or 0 */
} pl_option_kind;

enum { PL_N_DIVISIONS = 16 }; /* for requests of 1 MiB to 32 GiB, one per power of two */

typedef struct pl_option {
    const char *name;
    pl_option_kind kind;
    size_t offset;    /* of the value in the struct */
    size_t bytes;     /* of the value */
    uint64_t initial; /* the default; for words their index */
    uint64_t least;
    uint64_t most;
    uint64_t scale;           /* 0 = 1 */
    const char *const *words; /* in the order of the enum; NULL at the end */
    bool is_second_spelling;  /* the value of the row before, under a second name */
    const char *help;         /* the text in docs/configuration.md */
} pl_option;

/* Offset and bytes of a row, and number and rows of a table. */
#define PL_OPTION_AT(type, member)                                                                 \
    .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define PL_OPTION_ROWS(rows) .options = (rows), .n = sizeof(rows) / sizeof(rows)[0]

typedef struct pl_option_table {
    const pl_option *options;
    unsigned n;
    size_t bytes; /* size of the struct with the values */
    /* Do the values go together, once all are read? `chosen` is the allocator to be made, perhaps
     * with a different table. ECONF; the driver error's detail names the conflict. NULL: any values
     * do. */
    pleat_status (*check)(const struct pl_allocator_options *options,
                          const struct pl_allocator_ops *chosen);
} pl_option_table;

/* The defaults. `own` is the struct as bytes, at any place; likewise below. */
void pl_options_reset(const pl_option_table *table, void *own);

/* The value, if it is a number, a size, a boolean or a word. */
uint64_t pl_option_load(const pl_option *option, const void *own);
void pl_option_store(const pl_option *option, void *own, uint64_t value);

#endif
