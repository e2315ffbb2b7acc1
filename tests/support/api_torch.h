/* api_torch.h - the default instance on the simulator, and the output of adapters on standard
 * error. */
#ifndef PLEAT_TESTS_API_TORCH_H
#define PLEAT_TESTS_API_TORCH_H

#include "tests/support/api_sim.h"

/* Put this configuration into PLEAT_CONF, from which the default instance is made. */
void api_torch_configure(int allocator, const char *sim_conf, const char *more);
/* The same, and make the default instance. api_unmake ends it; its next use makes another one. */
pleat api_torch_make(int allocator, const char *sim_conf, const char *more);

/* What is written to standard error between listen and heard goes to `text`, NUL-terminated. */
void api_torch_listen(void);
void api_torch_heard(char *text, size_t capacity);

/* Submit work that writes [ptr, ptr + bytes) on a stream of the device. */
void api_torch_work(pleat instance, int device, void *stream, void *ptr, size_t bytes);
/* Begin and end a capture of a stream of the device; at its end the capture must be intact. */
void api_torch_begin_capture(pleat instance, int device, void *stream);
void api_torch_end_capture(pleat instance, int device, void *stream);

#endif
