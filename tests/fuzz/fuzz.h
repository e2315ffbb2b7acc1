/* fuzz.h - what the fuzz targets share: files made of bytes, and properties of what was read.
 *
 * A target is FUZZED_fuzz.c with LLVMFuzzerTestOneInput. In the build `fuzz` libFuzzer calls it, in
 * others standalone.c does with the files of corpus/FUZZED. It aborts where a property fails. */
#ifndef PLEAT_TESTS_FUZZ_H
#define PLEAT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "bench/base/failure.h"
#include "bench/work/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Print what is wrong and abort. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Print what is done, if the environment has PLEAT_FUZZ_SAY. */
void fuzz_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define fuzz_check(condition, ...) ((condition) ? (void)0 : fuzz_fail(__VA_ARGS__))

/* The path of a file in memory that holds these bytes, valid until the next call. If they begin
 * with z, the rest is packed by gzip first; with c, the packed bytes are cut at an offset that the
 * next two bytes give; with d, one packed byte is damaged there. */
const char *fuzz_file(const uint8_t *data, size_t n);
/* The same, with the bytes as they are. */
const char *fuzz_plain_file(const uint8_t *data, size_t n);

/* The bytes as a string; the caller frees it. */
char *fuzz_text(const uint8_t *data, size_t n);

/* There is a message, and it can be shown in a terminal. */
void fuzz_check_message(const char *text);

/* Frees are of live slots, allocations of free ones; the tape's figures are those of its events. */
void fuzz_check_tape(const bench_tape *tape);

/* Read `found` as `pleat replay` does, and check what was read. */
void fuzz_read_work_file(const char *found);

#endif
