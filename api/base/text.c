/* text.c - sentences built in fixed buffers. A text too long is cut; n still counts all of it. */
#include "api/base/text.h"

#include <stdio.h>

void pl_text_init(pl_text *text, char *buffer, size_t capacity)
{
    *text = (pl_text){ .at = buffer, .capacity = capacity };
    if (capacity > 0) {
        buffer[0] = '\0';
    }
}

void pl_text_add_list(pl_text *text, const char *format, va_list list)
{
    size_t room = text->n < text->capacity ? text->capacity - text->n : 0;
    int n = vsnprintf(room > 0 ? text->at + text->n : NULL, room, format, list);
    if (n > 0) {
        text->n += (size_t)n;
    }
}

void pl_text_add(pl_text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pl_text_add_list(text, format, list);
    va_end(list);
}

/* Rounded half to even, as printf's %.2f and PyTorch do: a text with sizes of both shows equal
 * bytes alike. Not by printf, whose decimal point is the locale's. */
static uint64_t hundredths_of(uint64_t bytes, unsigned unit_index)
{
    uint64_t unit = UINT64_C(1) << (10 * (unit_index + 1));
    uint64_t part = bytes % unit * 100;
    uint64_t down = bytes / unit * 100 + part / unit;
    uint64_t left = part % unit * 2;
    bool is_up = left > unit || (left == unit && down % 2 != 0);
    return down + (is_up ? 1 : 0);
}

void pl_text_add_bytes(pl_text *text, uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB" };
    enum { N_UNITS = sizeof units / sizeof units[0] };
    if (bytes < 1024) {
        pl_text_add(text, "%u B", (unsigned)bytes);
        return;
    }
    unsigned at = 0;
    uint64_t hundredths = hundredths_of(bytes, at);
    while (at + 1 < N_UNITS && hundredths >= 102400) {
        at++;
        hundredths = hundredths_of(bytes, at);
    }
    pl_text_add(text, "%llu.%02u %s", (unsigned long long)(hundredths / 100),
                (unsigned)(hundredths % 100), units[at]);
}
