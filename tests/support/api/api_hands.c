/* api_hands.c - see api_hands.h. */
#include "tests/support/api/api_hands.h"

#include <check.h>

static void *obey(void *arg)
{
    api_hand *hand = arg;
    pthread_mutex_lock(&hand->mutex);
    while (!hand->is_dismissed) {
        if (hand->call != NULL) {
            hand->call(hand->context);
            hand->call = NULL;
            pthread_cond_broadcast(&hand->changed);
        } else {
            pthread_cond_wait(&hand->changed, &hand->mutex);
        }
    }
    pthread_mutex_unlock(&hand->mutex);
    return NULL;
}

void api_hand_open(api_hand *hand)
{
    hand->call = NULL;
    hand->is_dismissed = false;
    ck_assert_int_eq(pthread_mutex_init(&hand->mutex, NULL), 0);
    ck_assert_int_eq(pthread_cond_init(&hand->changed, NULL), 0);
    ck_assert_int_eq(pthread_create(&hand->thread, NULL, obey, hand), 0);
}

void api_hand_close(api_hand *hand)
{
    pthread_mutex_lock(&hand->mutex);
    hand->is_dismissed = true;
    pthread_cond_broadcast(&hand->changed);
    pthread_mutex_unlock(&hand->mutex);
    ck_assert_int_eq(pthread_join(hand->thread, NULL), 0);
    pthread_cond_destroy(&hand->changed);
    pthread_mutex_destroy(&hand->mutex);
}

void api_hand_do(api_hand *hand, void (*call)(void *context), void *context)
{
    if (hand == NULL) {
        call(context);
        return;
    }
    pthread_mutex_lock(&hand->mutex);
    hand->call = call;
    hand->context = context;
    pthread_cond_broadcast(&hand->changed);
    while (hand->call != NULL) {
        pthread_cond_wait(&hand->changed, &hand->mutex);
    }
    pthread_mutex_unlock(&hand->mutex);
}

typedef struct errand {
    pleat instance;
    size_t bytes;
    void *stream;
    pleat_devptr ptr;
    pleat_status status;
} errand;

static void alloc(void *context)
{
    errand *w = context;
    w->status = pleat_block_alloc(w->instance, 0, w->bytes, w->stream, &w->ptr);
}

static void give_back(void *context)
{
    errand *w = context;
    w->status = pleat_block_free(w->instance, 0, w->ptr, w->stream);
}

pleat_status api_hand_try_alloc(api_hand *hand, pleat instance, size_t bytes, void *stream,
                                pleat_devptr *out)
{
    errand w = { .instance = instance, .bytes = bytes, .stream = stream };
    api_hand_do(hand, alloc, &w);
    *out = w.ptr;
    return w.status;
}

pleat_status api_hand_try_free(api_hand *hand, pleat instance, pleat_devptr ptr, void *stream)
{
    errand w = { .instance = instance, .ptr = ptr, .stream = stream };
    api_hand_do(hand, give_back, &w);
    return w.status;
}

pleat_devptr api_hand_alloc(api_hand *hand, pleat instance, size_t bytes, void *stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = api_hand_try_alloc(hand, instance, bytes, stream, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%zu bytes: %s", bytes, pleat_status_text(st));
    return ptr;
}

void api_hand_free(api_hand *hand, pleat instance, pleat_devptr ptr, void *stream)
{
    pleat_status st = api_hand_try_free(hand, instance, ptr, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_status_text(st));
}
