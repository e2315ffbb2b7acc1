/* whereabouts.h - what lies at an address that a call does not take, for the refusal's text. */
#ifndef PLEAT_API_WHEREABOUTS_H
#define PLEAT_API_WHEREABOUTS_H

#include "api/instance.h"
#include "api/text.h"

/* Append what the instance has there, and which call takes that; nothing, if it has nothing there.
 * `device`: the one that the caller has named. Takes locks of devices. */
void pl_whereabouts_say(pl_instance *instance, int device, pleat_devptr ptr, pl_text *text);

#endif
