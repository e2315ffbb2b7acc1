/* segments_gate.c - see segments_gate.h. */
#include "tests/support/segments/segments_gate.h"

#include <check.h>

void player_gate_open(player_gate *gate, bool is_shared)
{
    *gate = (player_gate){ .is_shared = is_shared };
    ck_assert_int_eq(pthread_mutex_init(&gate->mutex, NULL), 0);
    ck_assert_int_eq(pthread_cond_init(&gate->changed, NULL), 0);
}

void player_gate_close(player_gate *gate)
{
    (void)pthread_cond_destroy(&gate->changed);
    (void)pthread_mutex_destroy(&gate->mutex);
}

void player_gate_enter(player_gate *gate)
{
    if (!gate->is_shared) {
        return;
    }
    pthread_mutex_lock(&gate->mutex);
    while (gate->n_lonely > 0) {
        pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    gate->n_inside++;
    pthread_mutex_unlock(&gate->mutex);
}

void player_gate_leave(player_gate *gate)
{
    if (!gate->is_shared) {
        return;
    }
    pthread_mutex_lock(&gate->mutex);
    gate->n_inside--;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void player_gate_be_alone(player_gate *gate)
{
    if (!gate->is_shared) {
        return;
    }
    pthread_mutex_lock(&gate->mutex);
    gate->n_inside--;
    gate->n_lonely++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->n_inside > 0 || gate->is_alone) {
        pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    gate->is_alone = true;
    pthread_mutex_unlock(&gate->mutex);
}

void player_gate_rejoin(player_gate *gate)
{
    if (!gate->is_shared) {
        return;
    }
    pthread_mutex_lock(&gate->mutex);
    gate->is_alone = false;
    gate->n_lonely--;
    gate->n_inside++;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void player_gate_lock(player_gate *gate)
{
    if (gate->is_shared) {
        pthread_mutex_lock(&gate->mutex);
    }
}

void player_gate_unlock(player_gate *gate)
{
    if (gate->is_shared) {
        pthread_mutex_unlock(&gate->mutex);
    }
}
