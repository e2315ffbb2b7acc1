/* text.h - names that come from outside, fit for files and for terminals: good UTF-8 without
 * control characters. */
#ifndef PLEAT_BENCH_TEXT_H
#define PLEAT_BENCH_TEXT_H

#include <stddef.h>

enum { BENCH_NAME_BYTES = 512 }; /* of a work's name; the specs of long runs have 100 to 250 */

/* The first `n_text` bytes of `text` into `out` of `n` bytes: '?' for each byte that is no UTF-8
 * and for control characters, cut at a character. */
void bench_text_clean(const char *text, size_t n_text, char *out, size_t n);

/* Of a clean text: its characters; the bytes of its longest beginning of at most `most` bytes. */
size_t bench_text_columns(const char *text);
size_t bench_text_prefix(const char *text, size_t most);

/* A clean text of at most `width` (3 or more) characters, cut with three dots, into `out`, which is
 * returned. `n` >= 4 * width + 1 holds any. */
const char *bench_text_cut(const char *text, size_t width, char *out, size_t n);

#endif
