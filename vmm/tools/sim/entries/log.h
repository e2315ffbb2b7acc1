/* log.h - every call with its arguments, result, thread and modelled cost. */
#ifndef PLEAT_SIM_LOG_H
#define PLEAT_SIM_LOG_H

#include "vmm/tools/sim/entries/call.h"

void sim_log_add(const sim_call *call);
/* JSON lines, oldest first. 0, or -1 when the file cannot be written. */
int sim_log_write(const char *path);
void sim_log_reset(void);

#endif
