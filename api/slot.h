/* slot.h - how instances come into the table and out of it again. States: instance.h. */
#ifndef PLEAT_API_SLOT_H
#define PLEAT_API_SLOT_H

#include "api/instance.h"

/* What all instances share. */
typedef struct pl_api {
    pl_lock lock;           /* rank 10: the api lock */
    pthread_cond_t changed; /* one of the two flags below was taken back */
    bool is_creating;       /* api lock: one instance is made at a time */
    bool is_making_default; /* api lock */
    bool has_sim_conf;      /* api lock: sim_conf is what the simulator was last reset to */
    char sim_conf[PL_SIM_CONF_BYTES]; /* api lock */
} pl_api;

extern pl_api pl_api_state;

void pl_api_acquire(void); /* also prepares the table on first use */
void pl_api_release(void);

/* Wait until `flag` of pl_api_state is false and set it; take it back. */
void pl_api_claim(bool *flag);
void pl_api_unclaim(bool *flag);

/* FREE -> MAKING, with a new generation. Returns PLEAT_OK; ENOMEM_HOST (the table is full). */
pleat_status pl_slot_take(pl_slot **out);
void pl_slot_publish(pl_slot *slot, bool is_on_sim); /* MAKING -> OPEN */
void pl_slot_give_back(pl_slot *slot);               /* MAKING or CLOSING -> FREE */
/* OPEN -> CLOSING, then wait until the last user has left. Returns PLEAT_OK; EGONE; EFORKED. */
pleat_status pl_slot_close(pleat handle, pl_slot **out);
void pl_slot_reopen(pl_slot *slot); /* CLOSING -> OPEN */

/* Does the handle say OPEN right now? Returns PLEAT_OK; EGONE; EFORKED; sets no error. */
pleat_status pl_slot_probe(pleat handle);

#endif
