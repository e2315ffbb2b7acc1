/* utf8.c - which bytes form a character. Source: the Unicode Standard, table 3-7. */
#include "api/snapshot/utf8.h"

typedef struct lead {
    unsigned char first, last; /* range of the first byte */
    unsigned char least, most; /* of the second */
    unsigned char n;           /* bytes in all */
} lead;

static const lead leads[] = {
    { 0xC2, 0xDF, 0x80, 0xBF, 2 }, { 0xE0, 0xE0, 0xA0, 0xBF, 3 }, { 0xE1, 0xEC, 0x80, 0xBF, 3 },
    { 0xED, 0xED, 0x80, 0x9F, 3 }, { 0xEE, 0xEF, 0x80, 0xBF, 3 }, { 0xF0, 0xF0, 0x90, 0xBF, 4 },
    { 0xF1, 0xF3, 0x80, 0xBF, 4 }, { 0xF4, 0xF4, 0x80, 0x8F, 4 },
};

static int has_tail(const unsigned char *at, size_t n, const lead *row)
{
    if (n < row->n || at[1] < row->least || at[1] > row->most) {
        return 0;
    }
    for (size_t i = 2; i < row->n; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return 1;
}

size_t pl_utf8_next(const unsigned char *at, size_t n, int *is_valid)
{
    *is_valid = at[0] < 0x80;
    for (size_t i = 0; !*is_valid && i < sizeof leads / sizeof leads[0]; i++) {
        const lead *row = &leads[i];
        if (at[0] >= row->first && at[0] <= row->last && has_tail(at, n, row)) {
            *is_valid = 1;
            return row->n;
        }
    }
    return 1;
}
