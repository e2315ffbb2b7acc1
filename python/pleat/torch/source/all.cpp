/* all.cpp - the whole class as one unit: reading PyTorch's headers takes most of the time. */
/* As in the wheels for Linux: without this macro the headers do not know expandable segments. */
#define PYTORCH_C10_DRIVER_API_SUPPORTED
#include "memory.cpp"

#include "budget.cpp"
#include "checkpoint.cpp"
#include "device.cpp"
#include "ended.cpp"
#include "foreign.cpp"
#include "foreign_pools.cpp"
#include "install.cpp"
#include "host.cpp"
#include "pools.cpp"
#include "recorder.cpp"
#include "share.cpp"
#include "shortage.cpp"
#include "snapshot.cpp"
