/* fuzz.h - shared by the fuzz targets: files made of bytes, and checks of the result.
 *
 * A target is FUZZED_fuzz.c with LLVMFuzzerTestOneInput. In the build `fuzz` libFuzzer calls the
 * target. In other builds standalone.c calls it with the files of corpus/FUZZED. A target aborts
 * where a check fails. */
#ifndef PLEAT_TESTS_FUZZ_H
#define PLEAT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "bench/base/failure.h"
#include "bench/work/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Print the error and abort. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Print the action, if the environment has PLEAT_FUZZ_SAY. */
void fuzz_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define fuzz_check(condition, ...) ((condition) ? (void)0 : fuzz_fail(__VA_ARGS__))

/* The path of a file in memory with these bytes, valid until the next call. If the bytes begin with
 * z, the rest is packed by gzip first. With c the packed bytes are cut at the offset in the next
 * two bytes. With d the packed byte at the offset is damaged. */
const char *fuzz_file(const uint8_t *data, size_t n);
/* fuzz_file without any packing. */
const char *fuzz_plain_file(const uint8_t *data, size_t n);

/* The bytes as a string, which the caller frees. */
char *fuzz_text(const uint8_t *data, size_t n);

/* The message is not empty, and a terminal can show it. */
void fuzz_check_message(const char *text);

/* Frees name live slots, allocations free ones. The tape's figures agree with its events. */
void fuzz_check_tape(const bench_tape *tape);

/* Read `found` as `pleat replay` does, and check the events. */
void fuzz_read_work_file(const char *found);

#endif
