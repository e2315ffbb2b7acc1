/* standalone.c - runs a fuzz target on files: FILE or FOLDER..., with the files of a folder in
 * turn.
 *
 * In other builds this file replaces libFuzzer. So the corpora are part of the ordinary suites. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    fuzz_check(file && stat(path, &st) == 0, "%s cannot be read", path);
    size_t n = (size_t)st.st_size;
    uint8_t *data = malloc(n + 1);
    fuzz_check(data && fread(data, 1, n, file) == n, "%s cannot be read", path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, n);
    free(data);
}

static unsigned run_folder(const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    unsigned n_run = 0;
    fuzz_check(n >= 0, "%s: no such folder", folder);
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        free(entries[i]);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            printf("%s\n", path);
            fflush(stdout); /* if a run aborts, the last name is its file */
            run_file(path);
            n_run++;
        }
    }
    free(entries);
    return n_run;
}

int main(int argc, char **argv)
{
    unsigned n_run = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool is_folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        if (is_folder) {
            n_run += run_folder(argv[i]);
        } else {
            run_file(argv[i]);
            n_run++;
        }
    }
    printf("%u inputs\n", n_run);
    return n_run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
