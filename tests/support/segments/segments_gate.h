/* segments_gate.h - lets many threads call at once, or one thread alone.
 *
 * Calls are made inside the gate. A thread inside may ask to be alone. Such a thread waits until no
 * other thread is inside, and nobody enters until it has rejoined. The gate's lock guards the
 * threads' other shared data. A gate that is not shared does nothing. */
#ifndef PLEAT_TESTS_SEGMENTS_GATE_H
#define PLEAT_TESTS_SEGMENTS_GATE_H

#include <pthread.h>
#include <stdbool.h>

typedef struct player_gate {
    bool is_shared; /* const */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned n_inside; /* mutex */
    unsigned n_lonely; /* mutex: threads alone, or waiting to be alone */
    bool is_alone;     /* mutex */
} player_gate;

void player_gate_open(player_gate *gate, bool is_shared);
void player_gate_close(player_gate *gate);

void player_gate_enter(player_gate *gate);
void player_gate_leave(player_gate *gate);
/* From inside: wait for the end of all other calls, and keep new calls out. */
void player_gate_be_alone(player_gate *gate);
void player_gate_rejoin(player_gate *gate); /* the thread is an ordinary one inside again */

void player_gate_lock(player_gate *gate);
void player_gate_unlock(player_gate *gate);

#endif
