/* divisions.c - PyTorch's list of roundings. No lock, no memory. */
#include "api/config/divisions.h"

#include <string.h>

static bool is_power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Take the next `size:divisions` and its comma off the front of *list. *is_last: no comma followed.
 * False without a colon. */
static bool take_entry(pl_span *list, pl_span *size, pl_span *division, bool *is_last)
{
    const char *comma = memchr(list->at, ',', list->n);
    size_t n = comma ? (size_t)(comma - list->at) : list->n;
    const char *colon = memchr(list->at, ':', n);
    if (!colon) {
        return false;
    }
    size_t n_size = (size_t)(colon - list->at);
    *size = pl_span_trimmed((pl_span){ list->at, n_size });
    *division = pl_span_trimmed((pl_span){ colon + 1, n - n_size - 1 });
    *is_last = !comma;
    if (comma) {
        *list = (pl_span){ comma + 1, list->n - n - 1 };
    }
    return true;
}

static bool read_index(pl_span size, unsigned *index)
{
    uint64_t mebibytes;
    if (!pl_parse_number(size, UINT64_C(1) << (PL_N_DIVISIONS - 1), &mebibytes) ||
        !is_power_of_two(mebibytes)) {
        return false;
    }
    *index = (unsigned)__builtin_ctzll(mebibytes);
    return true;
}

bool pl_divisions_read(pl_span list, uint64_t most, unsigned divisions[PL_N_DIVISIONS])
{
    unsigned read[PL_N_DIVISIONS] = { 0 };
    unsigned next = 0; /* the least index still allowed; 0 = no entry so far */
    bool is_last = false;
    while (!is_last) {
        pl_span size;
        pl_span division;
        uint64_t value;
        if (!take_entry(&list, &size, &division, &is_last) ||
            !pl_parse_number(division, most, &value) || (value & (value - 1)) != 0) {
            return false;
        }
        unsigned from = next;
        unsigned last = PL_N_DIVISIONS - 1;
        if (pl_span_is(size, ">")) {
            if (next == 0 || !is_last) {
                return false;
            }
        } else {
            if (!read_index(size, &last) || last < next) {
                return false;
            }
            from = next == 0 ? 0 : last;
        }
        for (unsigned i = from; i <= last; i++) {
            read[i] = (unsigned)value;
        }
        next = last + 1;
    }
    memcpy(divisions, read, sizeof read);
    return true;
}

void pl_divisions_write(const unsigned divisions[PL_N_DIVISIONS], pl_text *text)
{
    unsigned first = 0; /* entries 0 to `first` are equal */
    unsigned last = PL_N_DIVISIONS - 1;
    while (first < PL_N_DIVISIONS - 1 && divisions[first + 1] == divisions[0]) {
        first++;
    }
    if (first == PL_N_DIVISIONS - 1) {
        pl_text_add(text, "%u", divisions[0]);
        return;
    }
    while (divisions[last - 1] == divisions[PL_N_DIVISIONS - 1]) {
        last--; /* entries from `last` on are equal; entry 0 differs, so this ends */
    }
    pl_text_add(text, "[");
    for (unsigned i = first; i < last; i++) {
        pl_text_add(text, "%u:%u,", 1U << i, divisions[i]);
    }
    pl_text_add(text, ">:%u]", divisions[PL_N_DIVISIONS - 1]);
}
