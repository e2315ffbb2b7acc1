/* text.h - cleans names from outside for files and terminals: valid UTF-8 without control
 * characters. */
#ifndef PLEAT_BENCH_TEXT_H
#define PLEAT_BENCH_TEXT_H

#include <stddef.h>

enum { BENCH_NAME_BYTES = 512 }; /* of a work's name; the specs of long runs have 100 to 250 */

/* Copies the first `n_text` bytes of `text` into `out` of `n` bytes. Invalid UTF-8 and control
 * characters become '?'; a text that is too long is cut between characters. */
void bench_text_clean(const char *text, size_t n_text, char *out, size_t n);

/* For a clean text. First the number of characters; then the bytes of the longest prefix within
 * `most` bytes. */
size_t bench_text_columns(const char *text);
size_t bench_text_prefix(const char *text, size_t most);

/* Writes at most `width` (3 or more) characters of a clean text into `out`, with three dots if it
 * was cut, and returns `out`. `n` >= 4 * width + 1 always suffices. */
const char *bench_text_cut(const char *text, size_t width, char *out, size_t n);

#endif
