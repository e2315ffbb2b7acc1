/* all.cpp - the whole class as one unit: PyTorch's headers take longer to read than the rest. */
/* As the wheels for Linux are made: without it headers take expandable segments for unknown. */
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
