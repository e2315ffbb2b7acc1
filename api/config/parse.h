/* parse.h - strict readers of numbers, sizes and fractions; no locale, no sign, no white space. */
#ifndef PLEAT_API_PARSE_H
#define PLEAT_API_PARSE_H

#include "vmm/base/pleat_types.h"

/* Some characters of a longer string; not terminated. */
typedef struct pl_span {
    const char *at;
    size_t n;
} pl_span;

bool pl_span_is(pl_span span, const char *word);
pl_span pl_span_trimmed(pl_span span); /* without blanks at both ends */

/* All of `span` must match; on false nothing is written. */

/* Decimal digits, at most `most`. */
bool pl_parse_number(pl_span span, uint64_t most, uint64_t *out);
/* Digits, then nothing or one of K M G T KiB MiB GiB TiB, powers of 1,024; at most 2^60 bytes. */
bool pl_parse_size(pl_span span, uint64_t *bytes);
/* 0.9, .5, 1 or 1.0: more than 0, at most 1, up to nine decimals; in parts per 10^9. */
bool pl_parse_fraction(pl_span span, uint32_t *parts);
/* Exactly True or False. */
bool pl_parse_bool(pl_span span, bool *out);

#endif
