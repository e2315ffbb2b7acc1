/* serve.h - the thread that hands out descriptors of shared memory, and the process's number for
 * its socket. */
#ifndef PLEAT_API_SHARE_SERVE_H
#define PLEAT_API_SHARE_SERVE_H

#include "api/pleat.h"

/* This process's number: drawn by the first call, and anew in a forked child. False: the system
 * gives no random bytes. */
bool pl_serve_process(uint64_t process[2]);
/* Start the thread unless it runs. PLEAT_OK; ESHARE, with the error's text. */
pleat_status pl_serve_start(void);

#endif
