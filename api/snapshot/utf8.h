/* utf8.h - texts that came from elsewhere, character by character. */
#ifndef PLEAT_API_SNAPSHOT_UTF8_H
#define PLEAT_API_SNAPSHOT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { PL_UTF8_NONE = 0xFFFD, PL_UTF8_NONE_BYTES = 3 }; /* stands for what is no character */

/* How many of the n >= 1 bytes are the first character: 1 to 4, and *is_valid. Bytes that are none
 * (overlong, surrogates, beyond U+10FFFF, cut) are taken one at a time. */
size_t pl_utf8_next(const unsigned char *at, size_t n, int *is_valid);

#endif
