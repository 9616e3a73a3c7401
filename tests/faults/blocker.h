/* SPDX-License-Identifier: MIT */
/*
 * A store that is silent: another program holds the database's write lock, as one that is stopped inside a transaction
 * does. Of the store that store_begin("sqlite:") made.
 */
#ifndef HF_TESTS_FAULTS_BLOCKER_H
#define HF_TESTS_FAULTS_BLOCKER_H

#include "lib/apitest.h"

/* Returns when the lock is held. */
void block(void);
void unblock(void);
bool is_blocked(void);

#endif
