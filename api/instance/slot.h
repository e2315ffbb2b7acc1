/* slot.h - puts instances into the table and takes them out. States: instance.h. */
#ifndef PLEAT_API_SLOT_H
#define PLEAT_API_SLOT_H

#include "api/instance/instance.h"

/* State that all instances share. */
typedef struct pl_api {
    pl_lock lock;                     /* rank 10: the api lock */
    pl_cond changed;                  /* signals that a flag below was cleared */
    bool is_creating;                 /* api lock: one instance is made at a time */
    bool is_making_default;           /* api lock */
    bool has_sim_conf;                /* api lock: sim_conf is the simulator's last reset */
    char sim_conf[PL_SIM_CONF_BYTES]; /* api lock */
} pl_api;

extern pl_api pl_api_state;

void pl_api_acquire(void); /* also prepares the table on first use */
void pl_api_release(void);

/* Wait until `flag` of pl_api_state is false, then set it; clear it. */
void pl_api_claim(bool *flag);
void pl_api_unclaim(bool *flag);

/* FREE -> MAKING, with a new generation. Returns PLEAT_OK; ENOMEM_HOST (the table is full). */
pleat_status pl_slot_take(pl_slot **out);
void pl_slot_publish(pl_slot *slot, bool is_on_sim); /* MAKING -> OPEN */
void pl_slot_give_back(pl_slot *slot);               /* MAKING or CLOSING -> FREE */
/* OPEN -> CLOSING, then wait until the last user has left. Returns PLEAT_OK; EGONE; EFORKED. */
pleat_status pl_slot_close(pleat handle, pl_slot **out);
void pl_slot_reopen(pl_slot *slot); /* CLOSING -> OPEN */

/* Whether the handle is OPEN right now. Returns PLEAT_OK; EGONE; EFORKED; sets no error. */
pleat_status pl_slot_probe(pleat handle);

#endif
