/* api_calls.h - makes every public call on an instance once, with otherwise valid arguments. */
#ifndef PLEAT_TESTS_API_CALLS_H
#define PLEAT_TESTS_API_CALLS_H

#include "api/pleat.h"

typedef struct api_call {
    const char *name;
    pleat_status (*call)(pleat instance, int device);
    bool takes_device;
} api_call;

extern const api_call api_calls[];
extern const unsigned n_api_calls;

#endif
