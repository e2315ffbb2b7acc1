/* text.c - sentences built in fixed buffers. What does not fit is cut; n still counts it. */
#include "api/text.h"

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

void pl_text_add_bytes(pl_text *text, uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB" };
    enum { N_UNITS = sizeof units / sizeof units[0] };
    if (bytes < 1024) {
        pl_text_add(text, "%u B", (unsigned)bytes);
        return;
    }
    unsigned at = 0;
    while (at + 1 < N_UNITS && bytes >> (10 * (at + 2)) != 0) {
        at++;
    }
    uint64_t unit = UINT64_C(1) << (10 * (at + 1));
    uint64_t hundredths = (bytes % unit) * 100 / unit;
    pl_text_add(text, "%llu.%02u %s", (unsigned long long)(bytes / unit), (unsigned)hundredths,
                units[at]);
}
