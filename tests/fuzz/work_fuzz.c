/* work_fuzz.c - reads any text as a work of `pleat replay`: refused with a sentence, or good
 * events.
 *
 * Text with a generator's name is read as its spec, and the first iterations are written. Host
 * memory bounds the events of an iteration. A too large request fails here, and a generator must
 * survive the failure. Other text is opened as a work among a few small files. */
/* wraps: malloc calloc realloc */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/works/files.h"
#include "bench/works/registry.h"
#include "bench/works/work.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_ITERATIONS = 3, MOST_SPEC = 4096, MOST_BYTES = 4 << 20 };

/* The linker redirects the works' requests for host memory here. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return bytes <= MOST_BYTES ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    size_t all;
    bool is_huge = __builtin_mul_overflow(n, bytes, &all) || all > MOST_BYTES;
    return is_huge ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return bytes <= MOST_BYTES ? __real_realloc(old, bytes) : NULL;
}

static const struct {
    const char *name;
    const char *text;
} files[] = {
    { "t.trace", "i 0\na 1 1000 0\na 2 512 3\nf 1\ni 1\nf 2\n" },
    { "r.csv", "Thread,Time,Action,Pointer,Size,Stream\n"
               "1,0,allocate,0x10,1000,0x0\n1,0,allocate failure,0x0,99,0x0\n"
               "1,0,free,0x10,1000,0x0\n" },
    { "m.csv", "id,lower,upper,size\nb1,0,10,4\nb2,5,7,9\n" },
    { "s.pickle", "\x80\x04}." },
};
enum { N_FILES = sizeof files / sizeof files[0] };

static char folder[] = "/tmp/pleat-fuzz-XXXXXX";

static void name_file(size_t i, char *path, size_t n)
{
    snprintf(path, n, "%s/%s", folder, files[i].name);
}

static void remove_files(void)
{
    for (size_t i = 0; i < N_FILES; i++) {
        char path[64];
        name_file(i, path, sizeof path);
        unlink(path);
    }
    rmdir(folder);
}

/* Makes the files in the folder where bundled traces are looked for. */
static void make_files(void)
{
    static bool is_made = false;
    if (is_made) {
        return;
    }
    is_made = true;
    fuzz_check(mkdtemp(folder) && setenv("PLEAT_TRACES", folder, 1) == 0, "no folder for files");
    atexit(remove_files);
    for (size_t i = 0; i < N_FILES; i++) {
        char path[64];
        name_file(i, path, sizeof path);
        FILE *file = fopen(path, "wb");
        fuzz_check(file && fputs(files[i].text, file) >= 0 && fclose(file) == 0, "%s", path);
    }
}

/* Write a generator's first iterations to a tape, and check the tape after each one. */
static void write_some(const bench_generator *generator, bench_values *values)
{
    bench_failure failure = { .text = "" };
    bench_tape tape;
    values->iterations = values->iterations < MOST_ITERATIONS ? values->iterations
                                                              : MOST_ITERATIONS;
    void *state = generator->create(values, &failure);
    if (!state) {
        fuzz_check_message(failure.text);
        return;
    }
    bool is_good = true;
    bench_tape_init(&tape);
    for (uint64_t i = 0; is_good && i < values->iterations; i++) {
        is_good = bench_tape_mark(&tape, i) && generator->write(state, i, &tape);
    }
    if (is_good && tape.n_slots > 0) {
        fuzz_check_tape(&tape);
    }
    fuzz_check(is_good || tape.problem, "%s: stopped without a reason", generator->name);
    bench_tape_fini(&tape);
    generator->destroy(state);
}

static void read_generator(const bench_generator *generator, const char *text)
{
    bench_values values;
    bench_failure failure = { .text = "" };
    if (bench_values_read(generator, text, &values, &failure)) {
        write_some(generator, &values);
    } else {
        fuzz_check(failure.text[0] != '\0', "refused without a message");
    }
}

static void read_other(const char *spec)
{
    bench_work work;
    bench_failure failure = { .text = "" };
    if (bench_work_open(spec, &work, &failure)) {
        fuzz_check(work.name[0] != '\0', "'%s' has no name", spec);
        fuzz_check_tape(&work.tape);
        bench_work_close(&work);
    } else {
        fuzz_check(failure.text[0] != '\0', "refused without a message");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    make_files();
    if (n > MOST_SPEC || memchr(data, '/', n)) { /* opens no file of anybody else */
        return 0;
    }
    char *spec = fuzz_text(data, n);
    size_t n_name = strcspn(spec, ":");
    const bench_generator *generator = bench_generator_find(spec, n_name);
    if (generator) {
        read_generator(generator, spec + n_name + (spec[n_name] == ':'));
    } else {
        read_other(spec);
    }
    free(spec);
    return 0;
}
