/* api_hands.h - threads that run one call after another, as told by the test's own thread. So the
 * test chooses the order of calls of several threads. */
#ifndef PLEAT_TESTS_API_HANDS_H
#define PLEAT_TESTS_API_HANDS_H

#include <pthread.h>

#include "tests/support/api/api_sim.h"

typedef struct api_hand {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*call)(void *context); /* mutex: NULL = the thread is idle */
    void *context;               /* mutex */
    bool is_dismissed;           /* mutex */
} api_hand;

void api_hand_open(api_hand *hand);
void api_hand_close(api_hand *hand); /* its thread returns, and is joined */

/* Make the thread run `call`, and wait for the end of the call. NULL: the calling thread runs
 * `call`. `call` may not assert. */
void api_hand_do(api_hand *hand, void (*call)(void *context), void *context);

/* The thread makes that call on device 0. */
pleat_status api_hand_try_alloc(api_hand *hand, pleat instance, size_t bytes, void *stream,
                                pleat_devptr *out);
pleat_status api_hand_try_free(api_hand *hand, pleat instance, pleat_devptr ptr, void *stream);
/* The call must succeed. */
pleat_devptr api_hand_alloc(api_hand *hand, pleat instance, size_t bytes, void *stream);
void api_hand_free(api_hand *hand, pleat instance, pleat_devptr ptr, void *stream);

#endif
