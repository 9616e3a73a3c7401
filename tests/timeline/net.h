/* SPDX-License-Identifier: MIT */
/* The simulated network, as the simulated world steps it: a store "net:X" around the memory store, for peer X. */
#ifndef TIMELINE_NET_H
#define TIMELINE_NET_H

#include "timeline/sim.h"

void net_begin(void);
void net_end(void);

/* Does what is due. */
void net_step(void);

/* When something will be due. */
int64_t net_next(void);

/* Every message on its way fails at once, and from now on none takes time or is lost. */
void net_abandon(void);

sim_peer *sim_peer_by_letter(char letter);

#endif
