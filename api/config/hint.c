/* hint.c - see hint.h. Distances are of Damerau and Levenshtein, in the restricted form. */
#include "api/config/hint.h"

#include <string.h>

enum { LEAST_PLAIN_BYTES = 2 << 20 }; /* fewer bytes than that are hardly meant as bytes */

/* ---- words ----------------------------------------------------------------------------------- */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Both have at most PL_HINT_WORD - 1 bytes. */
static unsigned distance(pl_span a, pl_span b)
{
    unsigned rows[3][PL_HINT_WORD];
    for (unsigned k = 0; k <= b.n; k++) {
        rows[0][k] = k;
    }
    for (unsigned i = 1; i <= a.n; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *one = rows[(i + 2) % 3];
        const unsigned *two = rows[(i + 1) % 3];
        now[0] = i;
        for (unsigned k = 1; k <= b.n; k++) {
            bool is_same = a.at[i - 1] == b.at[k - 1];
            bool is_swapped = i > 1 && k > 1 && a.at[i - 1] == b.at[k - 2] &&
                              a.at[i - 2] == b.at[k - 1];
            now[k] = least(least(one[k], now[k - 1]) + 1, one[k - 1] + !is_same);
            now[k] = is_swapped ? least(now[k], two[k - 2] + 1) : now[k];
        }
    }
    return rows[a.n % 3][b.n];
}

void pl_nearest_init(pl_nearest *nearest, pl_span word)
{
    *nearest = (pl_nearest){ .word = word, .distance = PL_HINT_WORD };
}

void pl_nearest_offer(pl_nearest *nearest, pl_span known)
{
    pl_span word = nearest->word;
    if (word.n == 0 || word.n >= PL_HINT_WORD || known.n >= PL_HINT_WORD) {
        return;
    }
    unsigned far = distance(word, known);
    size_t longer = word.n > known.n ? word.n : known.n;
    if (far > 0 && 3 * (size_t)far <= longer && far < nearest->distance) {
        nearest->distance = far;
        memcpy(nearest->best, known.at, known.n);
        nearest->best[known.n] = '\0';
    }
}

const char *pl_nearest_say(const pl_nearest *nearest, const char *none, char out[PL_HINT_BYTES])
{
    pl_text text;
    pl_text_init(&text, out, PL_HINT_BYTES);
    if (nearest->distance < PL_HINT_WORD) {
        pl_text_add(&text, "; did you mean '%s'?", nearest->best);
    } else {
        pl_text_add(&text, "%s", none);
    }
    return out;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The digits at the start of a text, and at most one point; *is_zero: all digits are 0. */
static size_t count_digits(pl_span value, bool *is_zero)
{
    size_t n = 0;
    bool has_point = false;
    bool has_digit = false;
    *is_zero = true;
    for (; n < value.n; n++) {
        char c = value.at[n];
        if (!(c >= '0' && c <= '9') && (c != '.' || has_point)) {
            break;
        }
        has_point = has_point || c == '.';
        has_digit = has_digit || c != '.';
        *is_zero = *is_zero && (c == '0' || c == '.');
    }
    return has_digit ? n : 0;
}

/* The power of 1,024 of a unit's letter, in upper case; 0 = none. */
static char unit_of(char letter)
{
    static const char letters[] = "KMGTkmgt";
    const char *at = letter ? memchr(letters, letter, sizeof letters - 1) : NULL;
    return at ? letters[(at - letters) % 4] : '\0';
}

bool pl_hint_size(pl_span value, pl_text *text)
{
    bool is_zero;
    uint64_t bytes;
    int n = (int)count_digits(value, &is_zero);
    pl_span unit = { value.at + n, value.n - (size_t)n };
    char letter = unit.n > 0 ? unit_of(unit.at[0]) : '\0';
    if (n == 0 || value.n >= PL_HINT_WORD) {
        return false;
    }
    if (letter && unit.n == 2 && (unit.at[1] == 'B' || unit.at[1] == 'b')) {
        pl_text_add(text,
                    "'%.*s' could mean powers of 1,000 or of 1,024 bytes: write %.*s%c (or "
                    "%.*s%ciB) for 1,024, or the number of bytes",
                    (int)value.n, value.at, n, value.at, letter, n, value.at, letter);
        return true;
    }
    if (is_zero && (unit.n == 0 || (letter && unit.n <= 3) || pl_span_is(unit, "B"))) {
        pl_text_add(text, "'%.*s' is no memory at all: write how much there is, as in 80G or 512M",
                    (int)value.n, value.at);
        return true;
    }
    if (pl_parse_number(value, LEAST_PLAIN_BYTES - 1, &bytes)) {
        pl_text_add(text, "'%.*s' lacks a unit, as in 80G or 512M", (int)value.n, value.at);
        return true;
    }
    return false;
}
