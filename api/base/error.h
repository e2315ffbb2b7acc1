/* error.h - the calling thread's last failure, for pleat_last_error. */
#ifndef PLEAT_API_ERROR_H
#define PLEAT_API_ERROR_H

#include "api/pleat.h"
#include "vmm/driver.h"

enum { PL_ERROR_TEXT_BYTES = 2048 };

/* Remember a failure of this thread: the sentence, then the driver's message (result, call, detail)
 * if a driver call of this public call failed. `bytes`: size of the request, 0 if none. Returns
 * `status` for the caller to return. Forgets the driver's own error. */
pleat_status pl_error_set(pleat_status status, uint64_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Like pl_error_set, with a verdict on why memory was short. Takes a complete sentence, and the
 * driver's error from before its numbers were gathered. */
pleat_status pl_error_set_verdict(pleat_status status, uint64_t bytes, pleat_verdict verdict,
                                  const char *sentence, const pl_driver_error *driver)
    __attribute__((cold));

/* The status of this thread's last failure. */
pleat_status pl_error_status(void) __attribute__((cold));
/* A copy of the last error's text, cut to `capacity`. */
void pl_error_copy_text(char *text, size_t capacity);
/* Make `error` the last error again, with `text` as its text. */
void pl_error_restore(const pleat_error *error, const char *text);

#endif
