/* size.h - byte counts as people write them: 512, 64K, 1.5GiB; ratios; --memory. */
#ifndef PLEAT_BENCH_SIZE_H
#define PLEAT_BENCH_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number with an optional suffix K, M, G or T (powers of 1,024). KiB and so on mean the same as
 * K. B means bytes. KB and the like are refused, since some readers take them as powers of 1,000.
 * False unless the whole text is a size in [1, 2^60]. */
bool bench_size_parse(const char *text, uint64_t *out);

typedef enum bench_memory_kind {
    BENCH_MEMORY_UNLIMITED,
    BENCH_MEMORY_BYTES,
    BENCH_MEMORY_RATIO, /* a multiple of the work's peak live bytes */
} bench_memory_kind;

typedef struct bench_memory {
    bench_memory_kind kind;
    uint64_t bytes;
    double ratio;
} bench_memory;

/* "unlimited", "1.02x", or a size. A ratio is more than 0 and at most 1,000,000. A size below
 * 2 MiB must have a unit: `80` most likely means 80G. */
bool bench_memory_parse(const char *text, bench_memory *out);

/* Write to `out` why bench_memory_parse refused the text, for messages. Returns `out`. */
const char *bench_memory_refusal(const char *text, char *out, size_t n);

/* The simulator's capacity for "unlimited", since a number is needed. */
#define BENCH_UNLIMITED_BYTES (UINT64_C(1) << 40)

/* Bytes for a work with this peak. A ratio is rounded up to a granule. */
uint64_t bench_memory_bytes(const bench_memory *memory, uint64_t peak_live_bytes,
                            uint64_t granule_bytes);

/* Writes "29.624 GiB" or "512 B" into `out` and returns it. */
const char *bench_size_format(uint64_t bytes, char *out, size_t n);

static inline uint64_t bench_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

#endif
