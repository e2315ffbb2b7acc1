/* cost.c - reads cost files: strict, all or nothing. */
#include "vmm/tools/sim/cost.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_cost sim_costs[SIM_N_ENTRIES];

static double *find_share(sim_cost *cost, const char *key)
{
    return strcmp(key, "call") == 0        ? &cost->call
           : strcmp(key, "handle") == 0    ? &cost->handle
           : strcmp(key, "granule") == 0   ? &cost->granule
           : strcmp(key, "mib") == 0       ? &cost->mib
           : strcmp(key, "live") == 0      ? &cost->live
           : strcmp(key, "live_most") == 0 ? &cost->live_most
                                           : NULL;
}

static bool read_number(const char *text, double *out)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number) || number < 0) {
        return false;
    }
    *out = number;
    return true;
}

/* Reads `SYMBOL KEY NUMBER KEY NUMBER ...`. Returns the complaint, or NULL. */
static const char *read_line(char *line, sim_cost *costs)
{
    static const char blanks[] = " \t\r";
    char *rest = line;
    char *comment = strchr(line, '#');
    if (comment != NULL) {
        *comment = '\0';
    }
    const char *symbol = strtok_r(line, blanks, &rest);
    if (symbol == NULL || strcmp(symbol, "gpu") == 0 || strcmp(symbol, "source") == 0) {
        return NULL;
    }
    sim_entry entry = sim_entry_find(symbol);
    if (entry >= SIM_N_CU_ENTRIES) {
        return "unknown entry point";
    }
    const char *key;
    while ((key = strtok_r(NULL, blanks, &rest)) != NULL) {
        double *share = find_share(&costs[entry], key);
        const char *number = strtok_r(NULL, blanks, &rest);
        if (share == NULL) {
            return "expected call, handle, granule, mib, live or live_most";
        }
        if (number == NULL || !read_number(number, share)) {
            return "expected a number behind the key";
        }
    }
    bool is_bounded = costs[entry].live_most > 0;
    return (costs[entry].live > 0) != is_bounded
               ? "live and live_most: give both above 0, or neither"
               : NULL;
}

/* Reads and parses all lines of `text`, which has n bytes and a 0 behind them. */
static bool read_text(char *text, size_t n, const char *name, char *error, size_t n_error)
{
    sim_cost costs[SIM_N_ENTRIES] = { { .call = 0 } };
    const char *end = text + n;
    char *rest = text;
    for (unsigned number = 1; rest != NULL; number++) {
        char *line = strsep(&rest, "\n");
        const char *wrong = rest == NULL && line + strlen(line) != end ? "a byte 0 in the line"
                                                                       : read_line(line, costs);
        if (wrong != NULL) {
            snprintf(error, n_error, "simulator: costs %s:%u: %s", name, number, wrong);
            return false;
        }
    }
    memcpy(sim_costs, costs, sizeof(sim_costs));
    return true;
}

/* Reads a small file as text of *n bytes; NULL on failure, *is_large if the file is too large. */
static char *read_file(const char *name, size_t *n, bool *is_large)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        return NULL;
    }
    char *text = sim_new(MOST + 1);
    *n = fread(text, 1, MOST, file);
    text[*n] = '\0';
    *is_large = *n == MOST && fgetc(file) != EOF;
    if (ferror(file) || *is_large) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* The text of a built-in model, or NULL. */
static const char *find_builtin(const char *name)
{
    const sim_cost_file *file = sim_cost_files;
    while (file->name != NULL && strcmp(file->name, name) != 0) {
        file++;
    }
    return file->text;
}

bool sim_cost_load(const char *name, char *error, size_t n_error)
{
    const char *builtin = find_builtin(name);
    bool is_large = false;
    size_t n = builtin == NULL ? 0 : strlen(builtin);
    char *text = builtin == NULL ? read_file(name, &n, &is_large) : strdup(builtin);
    if (is_large) {
        snprintf(error, n_error, "simulator: costs %s: the file is larger than 1 MiB", name);
        return false;
    }
    if (text == NULL) {
        snprintf(error, n_error,
                 "simulator: bad value \"%s\" for key \"costs\": neither a built-in model nor a "
                 "file that can be read",
                 name);
        return false;
    }
    bool is_good = read_text(text, n, name, error, n_error);
    free(text);
    return is_good;
}
