/* fuzz.h - what the fuzz targets share: files made of bytes, and properties of what was read.
 *
 * A target is FUZZED_fuzz.c with LLVMFuzzerTestOneInput; libFuzzer calls it in the build `fuzz`,
 * standalone.c with the files of corpus/FUZZED in all others. It aborts where a property fails. */
#ifndef PLEAT_TESTS_FUZZ_H
#define PLEAT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "bench/base/failure.h"
#include "bench/work/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Say what is wrong and abort. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Say what is done, where the environment has PLEAT_FUZZ_SAY. */
void fuzz_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define fuzz_check(condition, ...) ((condition) ? (void)0 : fuzz_fail(__VA_ARGS__))

/* The path of a file in memory that holds these bytes, valid until the next call. Where they begin
 * with z, what follows is packed by gzip first; with c, the packed bytes are cut at a place that
 * the next two bytes say; with d, one of them is damaged there. */
const char *fuzz_file(const uint8_t *data, size_t n);
/* The same bytes as they are. */
const char *fuzz_plain_file(const uint8_t *data, size_t n);

/* The bytes as a string; the caller frees it. */
char *fuzz_text(const uint8_t *data, size_t n);

/* There is a message, and a terminal may show it. */
void fuzz_check_message(const char *text);

/* Every free is of a live slot, every allocation of a free one, and the tape's figures are those of
 * its events. */
void fuzz_check_tape(const bench_tape *tape);

/* Read `found` as `pleat replay` does, and check what came of it. */
void fuzz_read_work_file(const char *found);

#endif
