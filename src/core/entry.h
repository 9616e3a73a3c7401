/* SPDX-License-Identifier: MIT */
/* What an owner that has the name already may take beside it; and how a refusal is told. Under the client's mutex. */
#ifndef HF_CORE_ENTRY_H
#define HF_CORE_ENTRY_H

#include <stdint.h>

#include <holdfast/store.h>

struct hf__hold;

/* The owner of `hold` asks for `lock`, of the same name: another level of it, or the reason why not. Fills *grant or
 * *err, and returns the status. */
int hf__entry_again(struct hf__hold *hold, hf_lock *lock, int64_t now_us, hf_grant *grant, hf_error *err);

void hf__entry_describe(struct hf__hold *hold, int64_t now_us, hf_grant *grant);

/* HF_BUSY, with who holds it in a sentence and in err->holder. `place` is 0 where there is no queue. */
int hf__entry_busy(const hf_lock *lock, const hf_holder *holder, int64_t place, hf_error *err);

#endif
