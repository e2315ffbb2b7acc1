/* snapshot.h - a snapshot of an instance, for the callers within this folder. */
#ifndef PLEAT_API_SNAPSHOT_SNAPSHOT_H
#define PLEAT_API_SNAPSHOT_SNAPSHOT_H

#include "api/instance/instance.h"

/* Like pleat_snapshot_write with checked arguments; sets no error text. */
pleat_status pl_snapshot_write(pl_instance *instance, pleat_snapshot_format format,
                               pleat_write_fn write, void *context);

#endif
