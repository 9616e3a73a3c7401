/* SPDX-License-Identifier: MIT */
/* Random ids of 128 bits, from the system's generator: nothing of them survives a fork in both halves. */
#ifndef HF_BASE_ID_H
#define HF_BASE_ID_H

#include <stdbool.h>

#include <holdfast/store.h>

#define HF_ID_HEX 33 /* bytes of the hexadecimal form with its NUL */

/* False where the system has no random bytes to give. */
bool hf__id_random(hf_id *id);

bool hf__random_fill(void *bytes, size_t count);

/* A number from 0 to bound - 1; 0 where there is no randomness. */
int64_t hf__random_below(int64_t bound);

/* For tests: randomness of one's own, so that a run can be repeated; NULL restores the system's. */
void hf__random_replace(bool (*fill)(void *bytes, size_t count));

void hf__id_hex(const hf_id *id, char hex[HF_ID_HEX]);

/* False where `hex` is not 32 hexadecimal digits. */
bool hf__id_parse(hf_id *id, const char *hex);

bool hf__id_equal(const hf_id *a, const hf_id *b);

#endif
