/* serve.h - the thread that hands out descriptors of what this process has shared, and the number
 * of the process, by which others find it. */
#ifndef PLEAT_API_SHARE_SERVE_H
#define PLEAT_API_SHARE_SERVE_H

#include "api/pleat.h"

/* This process's number: drawn by the first call, another one in a forked child. False: the system
 * gives no random bytes. */
bool pl_serve_process(uint64_t process[2]);
/* Start the thread, if it does not run yet. PLEAT_OK; ESHARE, with the error's text. */
pleat_status pl_serve_start(void);

#endif
