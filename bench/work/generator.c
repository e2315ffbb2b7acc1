/* generator.c - reads the parameters of a generator. */
#include "bench/work/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/hint.h"
#include "bench/base/size.h"

enum { MOST_ITERATIONS = 1000000000 };

static bool read_word(const bench_param *param, const char *value, double *out)
{
    for (unsigned i = 0; param->words[i]; i++) {
        if (strcmp(param->words[i], value) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* strtod also accepts blanks, inf, nan and 0x10. */
static bool is_decimal(const char *value)
{
    return value[strspn(value, "0123456789.eE+-")] == '\0';
}

/* A plain number, or a size with its suffix. */
static bool read_number(const bench_param *param, const char *value, double *out)
{
    char *end;
    uint64_t bytes;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !is_decimal(value)) {
        if (!bench_size_parse(value, &bytes)) {
            return false;
        }
        number = (double)bytes;
    }
    if (!(number >= param->least && number <= param->most) ||
        (param->is_whole && number != floor(number))) {
        return false;
    }
    *out = number;
    return true;
}

static bool refuse(const bench_generator *generator, const bench_param *param, const char *value,
                   bench_failure *failure)
{
    char allowed[256] = "";
    size_t n = 0;
    if (!param->words) {
        snprintf(allowed, sizeof allowed, "a %snumber from %.15g to %.15g",
                 param->is_whole ? "whole " : "", param->least, param->most);
    }
    for (unsigned i = 0; param->words && param->words[i] && n < sizeof allowed; i++) {
        n += (size_t)snprintf(allowed + n, sizeof allowed - n, "%s%s", i ? ", " : "",
                              param->words[i]);
    }
    return bench_fail(failure, "%s: bad value '%.32s' of '%s' (%s); allowed: %s", generator->name,
                      value, param->name, param->doc, allowed);
}

static bool refuse_key(const bench_generator *generator, const char *key, bench_failure *failure)
{
    char known[320] = "";
    char hint[PL_HINT_BYTES];
    size_t n = 0;
    pl_nearest nearest;
    pl_nearest_init(&nearest, (pl_span){ key, strlen(key) });
    for (const bench_param *p = generator->params; p && p->name && n < sizeof known; p++) {
        n += (size_t)snprintf(known + n, sizeof known - n, ", %s", p->name);
        pl_nearest_offer(&nearest, (pl_span){ p->name, strlen(p->name) });
    }
    for (const bench_param *p = bench_common_params; p->name; p++) {
        pl_nearest_offer(&nearest, (pl_span){ p->name, strlen(p->name) });
    }
    return bench_fail(failure, "%s: '%.32s' is not a parameter%s there are: iterations, seed%s",
                      generator->name, key, pl_nearest_say(&nearest, ";", hint), known);
}

const bench_param bench_common_params[] = {
    { .name = "iterations",
      .doc = "how many",
      .least = 1,
      .most = MOST_ITERATIONS,
      .is_whole = true },
    { .name = "seed",
      .doc = "of the random numbers",
      .least = 0,
      .standard = 1,
      .most = 4294967295.0,
      .is_whole = true },
    { .name = NULL },
};

enum { N_COMMON = 2, N_KEYS = N_COMMON + BENCH_MOST_PARAMS };

/* The index of a key, common keys first; N_KEYS if the key is unknown. */
static unsigned find_key(const bench_generator *generator, const char *key)
{
    for (unsigned i = 0; i < N_COMMON; i++) {
        if (strcmp(bench_common_params[i].name, key) == 0) {
            return i;
        }
    }
    for (unsigned i = 0; generator->params && generator->params[i].name; i++) {
        if (strcmp(generator->params[i].name, key) == 0) {
            return N_COMMON + i;
        }
    }
    return N_KEYS;
}

/* Read one `key=value`. Both strings end with NUL. */
static bool read_item(const bench_generator *generator, const char *key, const char *value,
                      bool given[N_KEYS], bench_values *out, bench_failure *failure)
{
    unsigned index = find_key(generator, key);
    if (index == N_KEYS) {
        return refuse_key(generator, key, failure);
    }
    if (given[index]) {
        return bench_fail(failure, "%s: '%s' is given twice", generator->name, key);
    }
    given[index] = true;
    const bench_param *param = index < N_COMMON ? &bench_common_params[index]
                                                : &generator->params[index - N_COMMON];
    double number = 0;
    if (!(param->words ? read_word(param, value, &number) : read_number(param, value, &number))) {
        return refuse(generator, param, value, failure);
    }
    if (index == 0) {
        out->iterations = (uint64_t)number;
    } else if (index == 1) {
        out->seed = (uint64_t)number;
    } else {
        out->of[index - N_COMMON] = number;
    }
    return true;
}

bool bench_values_read(const bench_generator *generator, const char *text, bench_values *out,
                       bench_failure *failure)
{
    *out = (bench_values){ .iterations = generator->iterations, .seed = 1 };
    for (unsigned i = 0; generator->params && generator->params[i].name; i++) {
        out->of[i] = generator->params[i].standard;
    }
    bool given[N_KEYS] = { false };
    while (*text) {
        size_t n = strcspn(text, ",");
        char item[96];
        if (n >= sizeof item) {
            return bench_fail(failure, "%s: '%.32s...' is too long", generator->name, text);
        }
        memcpy(item, text, n);
        item[n] = '\0';
        char *equals = strchr(item, '=');
        if (!equals || equals == item || equals[1] == '\0') {
            return bench_fail(failure, "%s: '%s' is not of the form key=value", generator->name,
                              item);
        }
        *equals = '\0';
        if (!read_item(generator, item, equals + 1, given, out, failure)) {
            return false;
        }
        text += n;
        if (*text == ',' && *++text == '\0') {
            return bench_fail(failure, "%s: nothing comes after the last comma", generator->name);
        }
    }
    return true;
}
