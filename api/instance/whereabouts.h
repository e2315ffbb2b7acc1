/* whereabouts.h - describes the memory at an address that a call refused, for the error's text. */
#ifndef PLEAT_API_WHEREABOUTS_H
#define PLEAT_API_WHEREABOUTS_H

#include "api/base/text.h"
#include "api/instance/instance.h"

/* Append the instance's memory at the address, and the call that takes such an address; nothing, if
 * the instance has no memory there. `device`: named by the caller. Takes locks of devices. */
void pl_whereabouts_say(pl_instance *instance, int device, pleat_devptr ptr, pl_text *text);

#endif
