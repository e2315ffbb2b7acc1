/* api_torch.h - the default instance on the simulator, and the output of adapters on standard
 * error. */
#ifndef PLEAT_TESTS_API_TORCH_H
#define PLEAT_TESTS_API_TORCH_H

#include "tests/support/api/api_sim.h"

/* Put this configuration into PLEAT_CONF, for the default instance. */
void api_torch_configure(int allocator, const char *sim_conf, const char *more);
/* Configure, and make the default instance. api_unmake ends the instance; a later use makes a new
 * one. */
pleat api_torch_make(int allocator, const char *sim_conf, const char *more);

/* Output to standard error between listen and heard goes to `text`, NUL-terminated. */
void api_torch_listen(void);
void api_torch_heard(char *text, size_t capacity);

/* Submit work that writes [ptr, ptr + bytes) on a stream of the device. */
void api_torch_work(pleat instance, int device, void *stream, void *ptr, size_t bytes);
/* Begin and end a capture of a stream of the device; at its end the capture must be intact. */
void api_torch_begin_capture(pleat instance, int device, void *stream);
void api_torch_end_capture(pleat instance, int device, void *stream);

#endif
