/* callback.h - asks the application for memory, outside every lock and never recursively. */
#ifndef PLEAT_API_CALLBACK_H
#define PLEAT_API_CALLBACK_H

#include "api/instance/instance.h"

/* Run the pressure callback once. True: the callback freed something, so the request is worth
 * another try. False also without a callback, or inside one. */
bool pl_callback_pressure(pl_instance *instance, int device, size_t bytes);
/* Run the out-of-memory callback once, under the conditions of pl_callback_pressure. */
void pl_callback_oom(pl_instance *instance, int device, size_t bytes, const char *text);

#endif
