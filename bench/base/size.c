/* size.c - byte counts as typed by people. Text in, integers out; no state. */
#include "bench/base/size.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/hint.h"

#define MOST_BYTES (UINT64_C(1) << 60)
#define LEAST_PLAIN_BYTES (UINT64_C(2) << 20) /* of a device's memory, without a unit */

/* The power of two that a suffix stands for, or -1. */
static int suffix_shift(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (*suffix == '\0' || strcmp(suffix, "B") == 0) {
        return 0;
    }
    const char *letter = strchr(letters, toupper((unsigned char)*suffix));
    if (!letter) {
        return -1;
    }
    if (suffix[1] != '\0' && strcmp(suffix + 1, "iB") != 0) {
        return -1;
    }
    return 10 * (int)(letter - letters + 1);
}

/* Digits with at most one point. Needed because strtod alone accepts "inf", "0x1p3" and " 1". */
static const char *number_end(const char *text)
{
    const char *p = text;
    bool has_digit = false;
    bool has_point = false;
    for (; isdigit((unsigned char)*p) || (*p == '.' && !has_point); p++) {
        has_point = has_point || *p == '.';
        has_digit = has_digit || *p != '.';
    }
    return has_digit ? p : NULL;
}

bool bench_size_parse(const char *text, uint64_t *out)
{
    const char *end = number_end(text);
    if (!end) {
        return false;
    }
    int shift = suffix_shift(end);
    if (shift < 0) {
        return false;
    }
    bool is_whole = memchr(text, '.', (size_t)(end - text)) == NULL;
    if (is_whole) {
        uint64_t n = 0;
        for (const char *p = text; p < end; p++) {
            n = n * 10 + (uint64_t)(*p - '0');
            if (n > MOST_BYTES >> shift) {
                return false;
            }
        }
        if (n == 0) {
            return false;
        }
        *out = n << shift;
        return true;
    }
    /* A fraction of a byte is probably a ratio without its x. */
    double bytes = ldexp(strtod(text, NULL), shift);
    if (shift == 0 || !(bytes >= 1.0 && bytes <= (double)MOST_BYTES)) {
        return false;
    }
    *out = (uint64_t)bytes;
    return true;
}

/* A number of bytes without a unit, too few to be meant as bytes. */
static bool lacks_unit(const char *text)
{
    uint64_t bytes;
    const char *end = number_end(text);
    return end && *end == '\0' && bench_size_parse(text, &bytes) && bytes < LEAST_PLAIN_BYTES;
}

bool bench_memory_parse(const char *text, bench_memory *out)
{
    if (strcmp(text, "unlimited") == 0) {
        *out = (bench_memory){ .kind = BENCH_MEMORY_UNLIMITED };
        return true;
    }
    const char *end = number_end(text);
    if (end && strcmp(end, "x") == 0) {
        double ratio = strtod(text, NULL);
        *out = (bench_memory){ .kind = BENCH_MEMORY_RATIO, .ratio = ratio };
        return ratio > 0.0 && ratio <= 1e6;
    }
    uint64_t bytes;
    if (!bench_size_parse(text, &bytes) || lacks_unit(text)) {
        return false;
    }
    *out = (bench_memory){ .kind = BENCH_MEMORY_BYTES, .bytes = bytes };
    return true;
}

const char *bench_memory_refusal(const char *text, char *out, size_t n)
{
    pl_text said;
    pl_text_init(&said, out, n);
    if (!pl_hint_size((pl_span){ text, strlen(text) }, &said)) {
        pl_text_add(&said, "'%s' is not a size (512M, 1.5GiB), a ratio (1.02x) or unlimited", text);
    } else if (lacks_unit(text)) {
        pl_text_add(&said, "; %sB means bytes", text);
    }
    return out;
}

uint64_t bench_memory_bytes(const bench_memory *memory, uint64_t peak_live_bytes,
                            uint64_t granule_bytes)
{
    switch (memory->kind) {
    case BENCH_MEMORY_BYTES:
        return memory->bytes;
    case BENCH_MEMORY_RATIO: {
        double bytes = ceil(memory->ratio * (double)peak_live_bytes);
        uint64_t most = MOST_BYTES / granule_bytes * granule_bytes;
        return bytes >= (double)most ? most : bench_round_up((uint64_t)bytes, granule_bytes);
    }
    case BENCH_MEMORY_UNLIMITED:
        break;
    }
    return BENCH_UNLIMITED_BYTES;
}

const char *bench_size_format(uint64_t bytes, char *out, size_t n)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    snprintf(out, n, unit == 0 ? "%.0f %s" : "%.3f %s", value, units[unit]);
    return out;
}
