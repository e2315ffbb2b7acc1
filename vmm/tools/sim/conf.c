/* conf.c - reads the configuration string with one table of keys and strict readers.
 *
 * The keys and their meaning are documented for users at pleat_sim_reset (pleat_sim.h). */
#include "vmm/tools/sim/conf.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/work/delay.h"

typedef bool (*key_reader)(const char *value, sim_conf *conf);

/* Reads an unsigned decimal number within [least, most], with nothing after it. */
static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t number = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(unsigned char)*text - '0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (number < least || number > most) {
        return false;
    }
    *out = number;
    return true;
}

/* A number with an optional binary suffix K, M, G or T. */
static bool read_size(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    char digits[32];
    size_t length = strlen(text);
    unsigned shift = 0;
    if (length == 0 || length >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, text, length + 1);
    const char *suffix = strchr(suffixes, toupper((unsigned char)text[length - 1]));
    if (suffix != NULL && *suffix != '\0') {
        shift = 10U * (unsigned)(suffix - suffixes + 1);
        digits[length - 1] = '\0';
    }
    uint64_t number;
    if (!read_number(digits, 0, UINT64_MAX >> shift, &number)) {
        return false;
    }
    number <<= shift;
    if (number < least || number > most) {
        return false;
    }
    *out = number;
    return true;
}

/* `first` means false, `second` true. */
static bool read_choice(const char *text, const char *first, const char *second, bool *out)
{
    *out = strcmp(text, second) == 0;
    return *out || strcmp(text, first) == 0;
}

static bool read_text(const char *text, char *out, size_t n)
{
    size_t length = strlen(text);
    if (length == 0 || length >= n) {
        return false;
    }
    memcpy(out, text, length + 1);
    return true;
}

static bool read_devices(const char *value, sim_conf *conf)
{
    uint64_t number;
    if (!read_number(value, 1, SIM_MAX_DEVICES, &number)) {
        return false;
    }
    conf->n_devices = (int)number;
    return true;
}

static bool read_capacity(const char *value, sim_conf *conf)
{
    return read_size(value, 1, UINT64_C(1) << 46, &conf->capacity_bytes);
}

static bool read_host(const char *value, sim_conf *conf)
{
    return read_size(value, 0, UINT64_C(1) << 40, &conf->host_bytes);
}

static bool read_context(const char *value, sim_conf *conf)
{
    return read_size(value, 0, UINT64_C(1) << 46, &conf->context_bytes);
}

static bool read_granularity(const char *value, sim_conf *conf)
{
    uint64_t bytes;
    if (!read_size(value, 4096, UINT64_C(1) << 30, &bytes) || (bytes & (bytes - 1)) != 0) {
        return false;
    }
    conf->granule_bytes = bytes;
    return true;
}

static bool read_backing(const char *value, sim_conf *conf)
{
    return read_choice(value, "none", "memory", &conf->has_memory);
}

static bool read_depth(const char *value, sim_conf *conf)
{
    return read_number(value, 0, UINT64_C(1) << 20, &conf->depth);
}

static bool read_va_bits(const char *value, sim_conf *conf)
{
    uint64_t number;
    if (!read_number(value, 24, 48, &number)) {
        return false;
    }
    conf->va_bits = (unsigned)number;
    return true;
}

/* The place of a word among three, or 3 if absent. */
static int find_word(const char *text, const char *const words[3])
{
    int i = 0;
    while (i < 3 && strcmp(text, words[i]) != 0) {
        i++;
    }
    return i;
}

static bool read_profile(const char *value, sim_conf *conf)
{
    static const char *const words[3] = { "full", "no_vmm", "old_driver" };
    int i = find_word(value, words);
    conf->profile = (sim_profile)i;
    return i < 3;
}

static bool read_peers(const char *value, sim_conf *conf)
{
    static const char *const words[3] = { "all", "pairs", "none" };
    int i = find_word(value, words);
    conf->peers = (sim_peers)i;
    return i < 3;
}

static bool read_log(const char *value, sim_conf *conf)
{
    return read_choice(value, "ring", "full", &conf->is_log_full);
}

static bool read_fork(const char *value, sim_conf *conf)
{
    return read_choice(value, "allow", "refuse", &conf->is_fork_refused);
}

static bool read_free(const char *value, sim_conf *conf)
{
    return read_choice(value, "hazard", "wait", &conf->is_free_waiting);
}

static bool read_blocks(const char *value, sim_conf *conf)
{
    return read_choice(value, "told", "untold", &conf->is_untold);
}

static bool read_compute(const char *value, sim_conf *conf)
{
    uint64_t major;
    uint64_t minor;
    char text[8];
    if (!read_text(value, text, sizeof(text))) {
        return false;
    }
    char *dot = strchr(text, '.');
    if (dot == NULL) {
        return false;
    }
    *dot = '\0';
    if (!read_number(text, 3, 19, &major) || !read_number(dot + 1, 0, 9, &minor)) {
        return false;
    }
    conf->compute_major = (int)major;
    conf->compute_minor = (int)minor;
    return true;
}

static bool read_name(const char *value, sim_conf *conf)
{
    return read_text(value, conf->name, sizeof(conf->name));
}

static bool read_costs(const char *value, sim_conf *conf)
{
    return read_text(value, conf->costs, sizeof(conf->costs));
}

/* Splits a list, with or without brackets, at semicolons. Returns the next word, NULL after the
 * last. */
static char *next_word(char **rest)
{
    char *word = *rest;
    size_t length = word == NULL ? 0 : strlen(word);
    if (length >= 2 && word[0] == '[' && word[length - 1] == ']') {
        word[length - 1] = '\0';
        (*rest)++;
    }
    return strsep(rest, ";");
}

typedef bool (*word_reader)(char *word, sim_conf *conf);

static bool read_list(const char *value, word_reader read, sim_conf *conf)
{
    char *copy = strdup(value);
    char *rest = copy;
    char *word;
    bool is_good = copy != NULL;
    while (is_good && (word = next_word(&rest)) != NULL) {
        is_good = read(word, conf);
    }
    free(copy);
    return is_good;
}

static bool read_lack(char *word, sim_conf *conf)
{
    sim_entry entry = sim_entry_find(word);
    if (entry >= SIM_N_CU_ENTRIES) {
        return false;
    }
    conf->lacks[entry] = true;
    return true;
}

static bool read_without(const char *value, sim_conf *conf)
{
    return read_list(value, read_lack, conf);
}

/* `NAME=MICROSECONDS` or `NAME=yield`. */
static bool read_delay_of(char *word, unsigned *delay_us)
{
    char *number = strchr(word, '=');
    uint64_t us = SIM_DELAY_YIELD;
    if (number == NULL) {
        return false;
    }
    *number++ = '\0';
    sim_entry entry = sim_entry_find(word);
    if (entry == SIM_N_ENTRIES ||
        (strcmp(number, "yield") != 0 && !read_number(number, 0, SIM_DELAY_MOST, &us))) {
        return false;
    }
    delay_us[entry] = (unsigned)us;
    return true;
}

static bool read_delay_before(char *word, sim_conf *conf)
{
    return read_delay_of(word, conf->delay_us[SIM_DELAY_BEFORE]);
}

static bool read_delay_after(char *word, sim_conf *conf)
{
    return read_delay_of(word, conf->delay_us[SIM_DELAY_AFTER]);
}

static bool read_delay(const char *value, sim_conf *conf)
{
    return read_list(value, read_delay_before, conf);
}

static bool read_late_delay(const char *value, sim_conf *conf)
{
    return read_list(value, read_delay_after, conf);
}

static bool read_waits(const char *value, sim_conf *conf)
{
    return read_choice(value, "finish", "refuse", &conf->is_wait_refused);
}

static const struct {
    const char *word;
    size_t offset;
} unkindnesses[] = {
    { "partial_unmap", offsetof(sim_conf, is_unmap_partial) },
    { "unsafe_vmm", offsetof(sim_conf, is_vmm_unsafe) },
    { "broken_rdma", offsetof(sim_conf, is_rdma_broken) },
    { "no_host_numa", offsetof(sim_conf, is_host_refused) },
    { "host_numa_crash", offsetof(sim_conf, is_host_crashing) },
    { "green_apart", offsetof(sim_conf, is_green_apart) },
    { "green_events", offsetof(sim_conf, has_green_events) },
};

static bool read_unkindness(char *word, sim_conf *conf)
{
    for (size_t i = 0; i < sizeof(unkindnesses) / sizeof(unkindnesses[0]); i++) {
        if (strcmp(word, unkindnesses[i].word) == 0) {
            *(bool *)((char *)conf + unkindnesses[i].offset) = true;
            return true;
        }
    }
    return false;
}

static bool read_unkind(const char *value, sim_conf *conf)
{
    return read_list(value, read_unkindness, conf);
}

static bool read_dead_handles(const char *value, sim_conf *conf)
{
    static const char *const words[3] = { "error", "hazard", "crash" };
    int i = find_word(value, words);
    conf->dead_handles = (sim_dead)i;
    return i < 3;
}

static const struct {
    const char *key;
    key_reader read;
    const char *expects;
} keys[] = {
    { "devices", read_devices, "1 to 16" },
    { "capacity", read_capacity, "bytes, with an optional suffix K, M, G or T, at most 64T" },
    { "host", read_host, "bytes, with an optional suffix K, M, G or T, at most 1T" },
    { "context", read_context, "bytes, with an optional suffix K, M, G or T" },
    { "granularity", read_granularity, "a power of two from 4K to 1G" },
    { "backing", read_backing, "none or memory" },
    { "depth", read_depth, "0 to 1048576" },
    { "costs", read_costs, "a built-in model or the name of a file" },
    { "profile", read_profile, "full, no_vmm or old_driver" },
    { "peers", read_peers, "all, pairs or none" },
    { "va_bits", read_va_bits, "24 to 48, at most 47 with backing:memory" },
    { "log", read_log, "ring or full" },
    { "compute", read_compute, "a compute capability from 3.0 to 19.9" },
    { "name", read_name, "1 to 95 characters" },
    { "fork", read_fork, "refuse or allow" },
    { "free", read_free, "hazard or wait" },
    { "without", read_without, "names of entry points, [cuStreamGetId;cuGraphLaunch]" },
    { "dead_handles", read_dead_handles, "error, hazard or crash" },
    { "waits", read_waits, "finish or refuse" },
    { "blocks", read_blocks, "told or untold" },
    { "unkind", read_unkind,
      "of [partial_unmap;unsafe_vmm;broken_rdma;no_host_numa;host_numa_crash;green_apart;"
      "green_events]" },
    { "delay", read_delay, "entry points and microseconds, [cuMemMap=300;cuEventRecord=yield]" },
    { "delay_after", read_late_delay, "the same as for delay" },
};

enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static int find_key(const char *name)
{
    for (int i = 0; i < N_KEYS; i++) {
        if (strcmp(keys[i].key, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Most bytes of an unknown key that the error repeats, so that the text with all known keys fits a
 * pl_driver_error. */
enum { ECHO_BYTES = 24 };

static void refuse_key(const char *name, char *error, size_t n_error)
{
    int wrote = snprintf(error, n_error, "simulator: unknown key \"%.*s\"; known: ", ECHO_BYTES,
                         name);
    size_t n = (size_t)wrote < n_error ? (size_t)wrote : n_error;
    for (int i = 0; i < N_KEYS && n < n_error; i++) {
        n += (size_t)snprintf(error + n, n_error - n, "%s%s", i > 0 ? ", " : "", keys[i].key);
    }
}

/* Reads one `key:value`. `seen` has a bit per earlier key. */
static bool read_pair(char *pair, sim_conf *conf, unsigned *seen, char *error, size_t n_error)
{
    char *value = strchr(pair, ':');
    if (value != NULL) {
        *value++ = '\0';
    }
    int i = find_key(pair);
    if (i < 0) {
        refuse_key(pair, error, n_error);
        return false;
    }
    if (value == NULL) {
        snprintf(error, n_error, "simulator: key \"%s\" has no value", pair);
        return false;
    }
    if ((*seen & (1U << i)) != 0) {
        snprintf(error, n_error, "simulator: key \"%s\" is given twice", pair);
        return false;
    }
    *seen |= 1U << i;
    if (!keys[i].read(value, conf)) {
        snprintf(error, n_error, "simulator: bad value \"%s\" for key \"%s\": expected %s", value,
                 pair, keys[i].expects);
        return false;
    }
    return true;
}

/* Checks combinations of values, and sets defaults that depend on further keys. */
static bool complete(sim_conf *conf, char *error, size_t n_error)
{
    if (conf->va_bits == 0) {
        conf->va_bits = conf->has_memory ? 47 : 48;
    }
    if (conf->has_memory && conf->va_bits > 47) {
        snprintf(error, n_error,
                 "simulator: bad value \"%u\" for key \"va_bits\": at most 47 with backing:memory",
                 conf->va_bits);
        return false;
    }
    while ((UINT64_C(1) << conf->granule_shift) < conf->granule_bytes) {
        conf->granule_shift++;
    }
    if (conf->va_bits < conf->granule_shift + 2) {
        snprintf(error, n_error,
                 "simulator: bad value \"%u\" for key \"va_bits\": too small for "
                 "the granularity",
                 conf->va_bits);
        return false;
    }
    return true;
}

bool sim_conf_parse(const char *text, sim_conf *out, char *error, size_t n_error)
{
    static const sim_conf defaults = {
        .n_devices = 1,
        .capacity_bytes = UINT64_C(16) << 30,
        .host_bytes = UINT64_C(64) << 30,
        .granule_bytes = UINT64_C(2) << 20,
        .depth = 256,
        .is_fork_refused = true,
        .compute_major = 8,
        .name = "Simulated GPU",
        .costs = "a100",
    };
    sim_conf conf;
    memcpy(&conf, &defaults, sizeof(conf)); /* padding, too: sim_conf_is_equal */
    unsigned seen = 0;
    bool is_good = true;
    char *copy = strdup(text == NULL ? "" : text);
    if (copy == NULL) {
        snprintf(error, n_error, "simulator: out of host memory");
        return false;
    }
    char *rest = copy;
    while (is_good && rest != NULL && *copy != '\0') {
        char *pair = strsep(&rest, ",");
        is_good = read_pair(pair, &conf, &seen, error, n_error);
    }
    free(copy);
    if (!is_good || !complete(&conf, error, n_error)) {
        return false;
    }
    memcpy(out, &conf, sizeof(conf));
    return true;
}

bool sim_conf_is_equal(const sim_conf *a, const sim_conf *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

const char *sim_conf_environment(void)
{
    return secure_getenv("PLEAT_SIM");
}
