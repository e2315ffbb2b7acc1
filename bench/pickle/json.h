/* json.h - builds the values of a JSON text on the machine of pickles (pickle_machine.h).
 *
 * Reads what Python's json writes, NaN and Infinity included. An array of at most 1,000 integers is
 * a tuple, since JSON has no tuples. Without recursion: what is open stands as marks. */
#ifndef PLEAT_BENCH_JSON_H
#define PLEAT_BENCH_JSON_H

#include <stdbool.h>
#include <stddef.h>

struct bench_pickle_machine;

/* Does the text begin as an array or an object? Blanks and a byte order mark may stand before. */
bool bench_json_is(const unsigned char *data, size_t n);
/* False and a message with the offset. */
bool bench_json_run(struct bench_pickle_machine *m);

#endif
