/* parse.c - strict readers of numbers, sizes and fractions. Integers throughout. */
#include "api/config/parse.h"

#include <string.h>

enum { FRACTION_DIGITS = 9, WHOLE_PARTS = 1000000000 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool pl_span_is(pl_span span, const char *word)
{
    return strlen(word) == span.n && memcmp(span.at, word, span.n) == 0;
}

pl_span pl_span_trimmed(pl_span span)
{
    while (span.n > 0 && is_blank(span.at[0])) {
        span.at++;
        span.n--;
    }
    while (span.n > 0 && is_blank(span.at[span.n - 1])) {
        span.n--;
    }
    return span;
}

bool pl_parse_number(pl_span span, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (span.n == 0) {
        return false;
    }
    for (size_t i = 0; i < span.n; i++) {
        if (!is_digit(span.at[i])) {
            return false;
        }
        uint64_t digit = (uint64_t)(span.at[i] - '0');
        if (digit > most || value > (most - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

/* The power of two that a size's suffix stands for, or -1. */
static int suffix_shift(pl_span suffix)
{
    static const char letters[] = "KMGT";
    if (suffix.n == 0) {
        return 0;
    }
    const char *letter = memchr(letters, suffix.at[0], sizeof letters - 1);
    pl_span rest = { suffix.at + 1, suffix.n - 1 };
    if (!letter || !(rest.n == 0 || pl_span_is(rest, "iB"))) {
        return -1;
    }
    return 10 * (int)(letter - letters + 1);
}

bool pl_parse_size(pl_span span, uint64_t *bytes)
{
    size_t n_digits = 0;
    while (n_digits < span.n && is_digit(span.at[n_digits])) {
        n_digits++;
    }
    int shift = suffix_shift((pl_span){ span.at + n_digits, span.n - n_digits });
    uint64_t value;
    if (shift < 0 ||
        !pl_parse_number((pl_span){ span.at, n_digits }, (UINT64_C(1) << 60) >> shift, &value)) {
        return false;
    }
    *bytes = value << shift;
    return true;
}

bool pl_parse_fraction(pl_span span, uint32_t *parts)
{
    const char *point = memchr(span.at, '.', span.n);
    pl_span whole = { span.at, point ? (size_t)(point - span.at) : span.n };
    uint64_t value = 0;
    if (whole.n > 0 ? !pl_parse_number(whole, 1, &value) : !point) {
        return false;
    }
    value *= WHOLE_PARTS;
    if (point) {
        pl_span decimals = { point + 1, span.n - whole.n - 1 };
        uint64_t low;
        if (decimals.n > FRACTION_DIGITS || !pl_parse_number(decimals, WHOLE_PARTS, &low)) {
            return false;
        }
        for (size_t i = decimals.n; i < FRACTION_DIGITS; i++) {
            low *= 10;
        }
        value += low;
    }
    if (value == 0 || value > WHOLE_PARTS) {
        return false;
    }
    *parts = (uint32_t)value;
    return true;
}

bool pl_parse_bool(pl_span span, bool *out)
{
    bool is_true = pl_span_is(span, "True");
    if (!is_true && !pl_span_is(span, "False")) {
        return false;
    }
    *out = is_true;
    return true;
}
