/* granule.h - bitmaps of a segment's granules.
 *
 * Each bitmap comes with a bitmap `any`: a bit for every word, set if the word is not 0. A search
 * looks at two words at most, and otherwise at words of `any`. A word of `any` stands for PL_WORD
 * words: 2^20 granules have 256 words of `any`. */
#ifndef PLEAT_SEGMENTS_GRANULE_H
#define PLEAT_SEGMENTS_GRANULE_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/base/lock.h"

enum { PL_WORD = 64 }; /* granules in a word */
/* A chunk has at most 2^PL_MOST_ORDER granules. */
enum { PL_MOST_ORDER = 7, PL_N_ORDERS = PL_MOST_ORDER + 1 };

static inline uint64_t pl_granule_bit(size_t granule)
{
    return UINT64_C(1) << (granule % PL_WORD);
}

static inline bool pl_granule_is_set(const uint64_t *words, size_t granule)
{
    return (words[granule / PL_WORD] >> (granule % PL_WORD) & 1) != 0;
}

/* The bits of word i in [from, last], which overlaps the word. */
static inline uint64_t pl_granule_mask(size_t i, size_t from, size_t last)
{
    uint64_t mask = UINT64_MAX;

    if (i == from / PL_WORD) {
        mask <<= from % PL_WORD;
    }
    if (i == last / PL_WORD) {
        mask &= UINT64_MAX >> (PL_WORD - 1 - last % PL_WORD);
    }
    return mask;
}

/* How many bits of the word are set, at least one? Mostly the set bits are a row. */
static inline size_t pl_granule_count_in(uint64_t word)
{
    uint64_t row = word >> __builtin_ctzll(word);

    return (row & (row + 1)) == 0 ? PL_WORD - (size_t)__builtin_clzll(row)
                                  : (size_t)__builtin_popcountll(word);
}

/* How many bits of [from, last] are set? */
static inline size_t pl_granule_count(const uint64_t *words, size_t from, size_t last)
{
    size_t n = 0;

    for (size_t i = from / PL_WORD; i <= last / PL_WORD; i++) {
        uint64_t hit = words[i] & pl_granule_mask(i, from, last);
        n += hit != 0 ? pl_granule_count_in(hit) : 0;
    }
    return n;
}

/* The first set bit at or after `from` in n_words words, or SIZE_MAX. */
static inline size_t pl_granule_next(const uint64_t *words, const uint64_t *any, size_t n_words,
                                     size_t from)
{
    size_t i = from / PL_WORD;
    uint64_t word = words[i] & (UINT64_MAX << (from % PL_WORD));

    pl_lock_touch(1);
    if (word == 0) {
        size_t n_any = (n_words + PL_WORD - 1) / PL_WORD;
        size_t k = (i + 1) / PL_WORD;
        uint64_t filled = k < n_any ? any[k] & (UINT64_MAX << ((i + 1) % PL_WORD)) : 0;
        for (; filled == 0; filled = any[k]) {
            if (++k >= n_any) {
                return SIZE_MAX;
            }
            pl_lock_touch(1);
        }
        i = k * PL_WORD + (size_t)__builtin_ctzll(filled);
        word = words[i];
    }
    return i * PL_WORD + (size_t)__builtin_ctzll(word);
}

static inline size_t pl_granule_highest(uint64_t word)
{
    return (size_t)(PL_WORD - 1) - (size_t)__builtin_clzll(word);
}

/* The last set bit at or before `from`. There must be one. */
static inline size_t pl_granule_last(const uint64_t *words, const uint64_t *any, size_t from)
{
    size_t i = from / PL_WORD;
    uint64_t word = words[i] & (UINT64_MAX >> (PL_WORD - 1 - from % PL_WORD));

    if (word == 0) {
        size_t k = i / PL_WORD;
        uint64_t filled = any[k] & (pl_granule_bit(i) - 1);
        for (; filled == 0; filled = any[--k]) {
            pl_lock_touch(1);
        }
        i = k * PL_WORD + pl_granule_highest(filled);
        word = words[i];
    }
    return i * PL_WORD + pl_granule_highest(word);
}

/* The largest order of a chunk that fits into n granules, n >= 1. */
static inline unsigned pl_order_of(size_t n)
{
    unsigned order = 63U - (unsigned)__builtin_clzll(n);

    return order < PL_MOST_ORDER ? order : PL_MOST_ORDER;
}

#endif
