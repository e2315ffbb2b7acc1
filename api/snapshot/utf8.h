/* utf8.h - splits texts from elsewhere into characters. */
#ifndef PLEAT_API_SNAPSHOT_UTF8_H
#define PLEAT_API_SNAPSHOT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { PL_UTF8_NONE = 0xFFFD, PL_UTF8_NONE_BYTES = 3 }; /* replaces bytes that are no character */

/* The length of the first character among n >= 1 bytes: 1 to 4, and *is_valid. Invalid bytes
 * (overlong, surrogates, beyond U+10FFFF, cut off) are taken one at a time. */
size_t pl_utf8_next(const unsigned char *at, size_t n, int *is_valid);

#endif
