/* text.h - sentences built in fixed buffers: never overflow, never allocate, always terminated. */
#ifndef PLEAT_API_TEXT_H
#define PLEAT_API_TEXT_H

#include <stdarg.h>

#include "vmm/base/pleat_types.h"

typedef struct pl_text {
    char *at;        /* const */
    size_t capacity; /* const: bytes of the buffer, 0 = count only */
    size_t n;        /* bytes the whole text needs, without the end mark; may exceed capacity */
} pl_text;

/* An empty text in `buffer`; buffer may be NULL when capacity is 0. */
void pl_text_init(pl_text *text, char *buffer, size_t capacity);
/* Append. Integers and strings only: a floating-point number would obey the locale. */
void pl_text_add(pl_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pl_text_add_list(pl_text *text, const char *format, va_list list);
/* Append a size for people: "1.50 GiB", "512 B". */
void pl_text_add_bytes(pl_text *text, uint64_t bytes);

#endif
