/* text.c - cleans names from outside for files and terminals. */
#include "bench/base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The length of the character that begins at `text`. 0 for invalid bytes and control characters
 * (RFC 3629, section 4; C1 is U+0080 to U+009F). */
static size_t length_of(const char *text, const char *end)
{
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80) {
        return first >= 0x20 && first != 0x7F;
    }
    size_t n = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (n == 0 || (size_t)(end - text) < n) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if (!is_continuation(text[i])) {
            return 0;
        }
    }
    unsigned char second = (unsigned char)text[1];
    bool is_control = first == 0xC2 && second < 0xA0;
    bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    bool is_surrogate = first == 0xED && second > 0x9F;
    bool is_beyond = first == 0xF4 && second > 0x8F;
    return is_control || is_overlong || is_surrogate || is_beyond ? 0 : n;
}

void bench_text_clean(const char *text, size_t n_text, char *out, size_t n)
{
    const char *end = text + n_text;
    size_t used = 0;
    while (text < end) {
        size_t length = length_of(text, end);
        size_t taken = length ? length : 1;
        if (used + taken >= n) {
            break;
        }
        memcpy(out + used, length ? text : "?", taken);
        used += taken;
        text += taken;
    }
    out[used] = '\0';
}

size_t bench_text_columns(const char *text)
{
    size_t columns = 0;
    for (; *text; text++) {
        columns += !is_continuation(*text);
    }
    return columns;
}

size_t bench_text_prefix(const char *text, size_t most)
{
    size_t n = strnlen(text, most + 1);
    if (n <= most) {
        return n;
    }
    for (n = most; n > 0 && is_continuation(text[n]); n--) {
    }
    return n;
}

const char *bench_text_cut(const char *text, size_t width, char *out, size_t n)
{
    bool is_cut = bench_text_columns(text) > width;
    size_t left = is_cut ? width - 3 : width;
    const char *end = text;
    for (; *end && (left > 0 || is_continuation(*end)); end++) {
        left -= !is_continuation(*end);
    }
    snprintf(out, n, "%.*s%s", (int)(end - text), text, is_cut ? "..." : "");
    return out;
}
