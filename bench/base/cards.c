/* cards.c - the sizes of GPUs that can be bought.
 *
 * A card's total, as the driver and so PyTorch's messages tell it, is less than its name says, and
 * differs between cards of one name: some keep memory for ECC. Each line is the least of its name.
 * Half a GiB less is left for the context and the libraries. docs/benchmarks.md has the list. */
#include "bench/base/cards.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/base/text.h"

#define MIB UINT64_C(1048576)
#define OTHERS 512 /* MiB */

/* clang-format off */
const bench_card bench_cards[BENCH_N_CARDS] = {
    /* RTX 4060: 7.75 GiB; RTX 3070: 7.78 */
    { "8 GB", (7936 - OTHERS) * MIB, "RTX 4060, RTX 3070", NULL, 0 },
    /* RTX 4070 Ti: 11.70 GiB; RTX 3060: 11.75 */
    { "12 GB", (11980 - OTHERS) * MIB, "RTX 4070 Ti, RTX 3060", NULL, 0 },
    /* T4: 14.56 GiB; RTX A4000: 15.61 */
    { "16 GB", (14909 - OTHERS) * MIB, "T4", "RTX A4000", (15984 - OTHERS) * MIB },
    /* A10G, L4: 22.0 GiB; RTX 4090: 23.6 */
    { "24 GB", (22528 - OTHERS) * MIB, "L4, A10G", "RTX 4090", (24166 - OTHERS) * MIB },
    /* RTX 5090: 31.36 GiB; V100: 31.74 */
    { "32 GB", (32112 - OTHERS) * MIB, "RTX 5090", "V100", (32501 - OTHERS) * MIB },
    /* A100: 39.4 */
    { "40 GB", (40320 - OTHERS) * MIB, "A100", NULL, 0 },
    /* L40S: 44.4; RTX A6000: 47.5 */
    { "48 GB", (45440 - OTHERS) * MIB, "L40S", "RTX A6000", (48640 - OTHERS) * MIB },
    /* H100, A100: 79.0 to 79.3 */
    { "80 GB", (80896 - OTHERS) * MIB, "A100, H100", NULL, 0 },
    /* H100 NVL, 94 GB: 93.0; H20, RTX PRO 6000: 94.5 */
    { "96 GB", (95232 - OTHERS) * MIB, "H100 NVL", "RTX PRO 6000, H20", (96768 - OTHERS) * MIB },
    /* H200: 139.7 */
    { "141 GB", (143040 - OTHERS) * MIB, "H200", NULL, 0 },
    /* B200: 178.3; MI300X: 191.7 */
    { "192 GB", (182528 - OTHERS) * MIB, "B200", "MI300X", (196300 - OTHERS) * MIB },
};
/* clang-format on */

/* Do the names agree, but for blanks and capitals? */
static bool is_called(const char *label, const char *name)
{
    for (;; label++, name++) {
        label += strspn(label, " ");
        name += strspn(name, " ");
        if (toupper((unsigned char)*label) != toupper((unsigned char)*name)) {
            return false;
        }
        if (*label == '\0') {
            return true;
        }
    }
}

const bench_card *bench_card_of(const char *label, uint64_t bytes)
{
    for (unsigned i = 0; i < BENCH_N_CARDS; i++) {
        if (bench_cards[i].bytes == bytes && strcmp(bench_cards[i].label, label) == 0) {
            return &bench_cards[i];
        }
    }
    return NULL;
}

/* Is the name in a list as of the table; NULL = an empty list. */
static bool is_listed(const char *list, const char *name)
{
    char one[32];

    for (const char *p = list; p != NULL && *p != '\0'; p += strspn(p, ", ")) {
        size_t length = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, p);
        if (is_called(one, name)) {
            return true;
        }
        p += length;
    }
    return false;
}

/* What cards of the name leave for an allocator, by line of the table; 0 = none has the name. */
static uint64_t bytes_of(const bench_card *card, const char *name)
{
    char gigabytes[32];

    snprintf(gigabytes, sizeof gigabytes, "%sB", name); /* 24G */
    if (is_called(card->label, name) || is_called(card->label, gigabytes) ||
        is_listed(card->examples, name)) {
        return card->bytes;
    }
    return is_listed(card->larger, name) ? card->larger_bytes : 0;
}

bool bench_card_parse(const char *name, bench_memory *out)
{
    unsigned n = 0;

    for (unsigned i = 0; i < BENCH_N_CARDS; i++) {
        uint64_t bytes = bytes_of(&bench_cards[i], name);
        if (bytes > 0) {
            *out = (bench_memory){ .kind = BENCH_MEMORY_BYTES, .bytes = bytes };
            n++;
        }
    }
    return n == 1;
}

const char *bench_card_refusal(const char *name, char *out, size_t n)
{
    pl_text said;
    unsigned n_called = 0;

    pl_text_init(&said, out, n);
    pl_text_add(&said, "cards '%s' have", name);
    for (unsigned i = 0; i < BENCH_N_CARDS; i++) {
        if (bytes_of(&bench_cards[i], name) > 0) {
            pl_text_add(&said, "%s %s", n_called++ > 0 ? " or" : "", bench_cards[i].label);
        }
    }
    if (n_called > 0) {
        pl_text_add(&said, ": give the size");
        return out;
    }
    pl_text_init(&said, out, n);
    pl_text_add(&said, "there is no card '%s', but", name);
    for (unsigned i = 0; i < BENCH_N_CARDS; i++) {
        pl_text_add(&said, "%s %s", i > 0 ? "," : "", bench_cards[i].label);
    }
    pl_text_add(&said, "; or by the name of a GPU: L4, RTX 4090, H100");
    return out;
}
