/* json.c - JSON as in RFC 8259: valid UTF-8, no NaN, one line. Nothing can be recalled. */
#include <stdio.h>
#include <string.h>

#include "api/snapshot/utf8.h"
#include "api/snapshot/writer.h"

enum { NUMBER_BYTES = 40 };

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/* Writes a one-byte character that needs an escape. */
static void escape(pl_writer *w, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        pl_writer_put(w, (const char[]){ '\\', (char)byte }, 2);
    } else {
        pl_writer_put(w, (const char[]){ '\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15] }, 6);
    }
}

static void json_text(pl_writer *w, const char *text, size_t n)
{
    const unsigned char *from = (const unsigned char *)text;
    pl_writer_byte(w, '"');
    for (size_t i = 0; i < n;) {
        size_t end = i;
        int is_valid = 1;
        while (end < n && is_plain(from[end])) {
            end++;
        }
        size_t step = end > i ? end - i : pl_utf8_next(from + i, n - i, &is_valid);
        if (!is_valid) {
            pl_writer_put(w, "\xEF\xBF\xBD", PL_UTF8_NONE_BYTES);
        } else if (step == 1 && !is_plain(from[i])) {
            escape(w, from[i]);
        } else {
            pl_writer_put(w, from + i, step);
        }
        i += step;
    }
    pl_writer_byte(w, '"');
}

static void json_word(pl_writer *w, const char *word)
{
    json_text(w, word, strlen(word));
}

static void json_natural(pl_writer *w, uint64_t value)
{
    char digits[NUMBER_BYTES];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    pl_writer_put(w, digits + at, sizeof digits - at);
}

static void json_negative(pl_writer *w, int64_t value)
{
    pl_writer_byte(w, '-');
    json_natural(w, 0 - (uint64_t)value);
}

/* Replaces the locale's decimal point by a dot. A number without fraction or exponent gets a
 * fraction, so that readers take it as a real number. */
static void json_real(pl_writer *w, double value)
{
    char text[NUMBER_BYTES];
    char out[NUMBER_BYTES + 3];
    size_t n = 0;
    bool is_real = false;
    snprintf(text, sizeof text, "%.17g", value);
    for (const char *at = text; *at; at++) {
        bool is_digit = strchr("0123456789+-e", *at) != NULL;
        is_real = is_real || !is_digit || *at == 'e';
        if (is_digit) {
            out[n++] = *at;
        } else if (n > 0 && out[n - 1] != '.') {
            out[n++] = '.';
        }
    }
    pl_writer_put(w, out, n);
    if (!is_real) {
        pl_writer_put(w, ".0", 2);
    }
}

static void json_bool(pl_writer *w, bool value)
{
    pl_writer_put(w, value ? "true" : "false", value ? 4 : 5);
}

static void json_none(pl_writer *w)
{
    pl_writer_put(w, "null", 4);
}

static void json_pair(pl_writer *w, uint64_t first, uint64_t second)
{
    pl_writer_byte(w, '[');
    json_natural(w, first);
    pl_writer_byte(w, ',');
    json_natural(w, second);
    pl_writer_byte(w, ']');
}

static void json_item(pl_writer *w)
{
    if (pl_writer_level_of(w)->n++ > 0) {
        pl_writer_byte(w, ',');
    }
}

static void json_open(pl_writer *w)
{
    pl_writer_byte(w, pl_writer_level_of(w)->is_dict ? '{' : '[');
}

static void json_close(pl_writer *w)
{
    pl_writer_byte(w, pl_writer_level_of(w)->is_dict ? '}' : ']');
}

static void json_colon(pl_writer *w)
{
    pl_writer_byte(w, ':');
}

static void json_start(pl_writer *w)
{
    (void)w;
}

static void json_finish(pl_writer *w)
{
    pl_writer_byte(w, '\n');
}

static bool json_recall(pl_writer *w, uint32_t memo)
{
    (void)w;
    (void)memo;
    return false;
}

static void json_keep(pl_writer *w, uint32_t *memo)
{
    (void)w;
    (void)memo;
}

const pl_writer_format pl_writer_json = {
    .start = json_start,
    .finish = json_finish,
    .item = json_item,
    .open = json_open,
    .close = json_close,
    .word = json_word,
    .text = json_text,
    .colon = json_colon,
    .natural = json_natural,
    .negative = json_negative,
    .real = json_real,
    .boolean = json_bool,
    .none = json_none,
    .pair = json_pair,
    .recall = json_recall,
    .keep = json_keep,
};
