/* conf_fuzz.c - reads any strings as configuration. A refusal has a sentence. An accepted text,
 * written back, reads as the same.
 *
 * Lines: the argument, PLEAT_CONF, then MXNet's variables in the order of `variables`. */
#include <stdlib.h>
#include <string.h>

#include "api/config/config.h"
#include "api/pleat.h"
#include "tests/fuzz/fuzz.h"

static const char *const variables[] = {
    "PLEAT_CONF",
    "MXNET_GPU_MEM_POOL_TYPE",
    "MXNET_USE_NAIVE_STORAGE_MANAGER",
    "MXNET_GPU_MEM_POOL_RESERVE",
    "MXNET_GPU_MEM_POOL_PAGE_SIZE",
    "MXNET_GPU_POOL_PAGE_SIZE",
    "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE",
    "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF",
    "MXNET_USE_NAIVE_STORAGE_MANAGERS",
};
enum { N_VARIABLES = sizeof variables / sizeof variables[0] };

static void clear_variables(void)
{
    for (unsigned i = 0; i < N_VARIABLES; i++) {
        unsetenv(variables[i]);
    }
}

static void set_variables(char *lines)
{
    for (unsigned i = 0; i < N_VARIABLES && lines; i++) {
        char *line = strsep(&lines, "\n");
        fuzz_check(setenv(variables[i], line, 1) == 0, "setenv");
    }
}

static char *write_back(const pl_config *config)
{
    size_t needed = pl_config_write(config, NULL, 0);
    char *text = malloc(needed);
    fuzz_check(text && pl_config_write(config, text, needed) == needed &&
                   strlen(text) + 1 == needed,
               "what is written back needs another length");
    return text;
}

/* The configuration is written, read again without any variable, and written as the same text. */
static void check_round_trip(const pl_config *config)
{
    pl_config again;
    char *text = write_back(config);
    clear_variables();
    pleat_status st = pl_config_read(text, &again);
    fuzz_check(st == PLEAT_OK, "'%s' is refused: %s", text, pleat_last_error()->text);
    char *second = write_back(&again);
    fuzz_check(strcmp(text, second) == 0, "'%s' became '%s'", text, second);
    uint64_t total = UINT64_C(80) << 30;
    fuzz_check(pl_config_limit(config, total) == pl_config_limit(&again, total), "another limit");
    free(second);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = fuzz_text(data, n);
    char *lines = text;
    const char *conf = strsep(&lines, "\n");
    pl_config config;
    clear_variables();
    set_variables(lines);
    pleat_status st = pl_config_read(conf, &config);
    fuzz_check(st == PLEAT_OK || st == PLEAT_ECONF, "status %d", (int)st);
    if (st == PLEAT_OK) {
        check_round_trip(&config);
    } else {
        const pleat_error *error = pleat_last_error();
        fuzz_check(error->status == st && error->text[0] != '\0', "refused without a sentence");
    }
    free(text);
    return 0;
}
