/* api_torch.h - the default instance on the simulator, and what adapters say on standard error. */
#ifndef PLEAT_TESTS_API_TORCH_H
#define PLEAT_TESTS_API_TORCH_H

#include "tests/support/api_sim.h"

/* Put this configuration into PLEAT_CONF, where the default instance comes from. */
void api_torch_configure(int allocator, const char *sim_conf, const char *more);
/* The same, and make the default instance. api_unmake ends it; the next use makes another. */
pleat api_torch_make(int allocator, const char *sim_conf, const char *more);

/* What is written to standard error from listen to heard goes to `text`, ended. */
void api_torch_listen(void);
void api_torch_heard(char *text, size_t capacity);

/* Work that writes [ptr, ptr + bytes) on a stream of the device. */
void api_torch_work(pleat instance, int device, void *stream, void *ptr, size_t bytes);
/* Capture the stream, which is of the device; nothing may have broken the capture at its end. */
void api_torch_begin_capture(pleat instance, int device, void *stream);
void api_torch_end_capture(pleat instance, int device, void *stream);

#endif
