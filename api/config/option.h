/* option.h - option values of a table (segments/base/option.h) as text. `own`: the struct with the
 * option's field. */
#ifndef PLEAT_API_CONFIG_OPTION_H
#define PLEAT_API_CONFIG_OPTION_H

#include "api/base/text.h"
#include "api/config/parse.h"
#include "segments/base/option.h"

enum { PL_WHOLE_PARTS = 1000000000 }; /* the fraction 1 */

/* Read `value`; false, and nothing is written, for a value that is not allowed. is_bracketed: the
 * value stood in brackets. */
bool pl_option_read(const pl_option *option, pl_span value, bool is_bracketed, void *own);
/* Append the allowed values. */
void pl_option_say(const pl_option *option, pl_text *text);
/* False for an option that is not written: a value without a spelling, or a second name. */
bool pl_option_is_written(const pl_option *option, const void *own);
void pl_option_write(const pl_option *option, const void *own, pl_text *text);

void pl_parts_write(uint32_t parts, pl_text *text); /* of PL_WHOLE_PARTS */

#endif
