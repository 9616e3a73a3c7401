/* SPDX-License-Identifier: MIT */
/* renew: a batch of claims in one transaction. */
#include "stores/sql/sql.h"

#include <string.h>

#include "base/clock.h"

static bool take_number(void *arg, const hf__sql_value *columns, int count)
{
    (void)count;
    *(int64_t *)arg = columns[0].number;
    return false;
}

/* The ticket of a claim whose attempt was never answered. 0: it has none. */
static int find_ticket(hf__sql *sql, const hf_claim *claim, int64_t *ticket)
{
    hf__sql_value args[] = {HF__BYTES(claim->name, claim->name_len),
                            HF__BYTES(claim->id.bytes, sizeof claim->id.bytes)};

    *ticket = claim->mark;
    if (claim->mark != 0)
        return HF_OK;
    return sql->ops->run(sql->conn, HF__SQL_FIND, args, 2, take_number, ticket, NULL, sql->err);
}

static int renew_one(hf__sql *sql, hf_renewal *renewal)
{
    const hf_claim *claim = renewal->claim;
    int64_t         ticket, changed = 0, seen = 0;
    int             status = find_ticket(sql, claim, &ticket);

    if (status != HF_OK)
        return status;
    if (renewal->lease_ms > 0) {
        hf__sql_value args[] = {HF__BYTES(claim->name, claim->name_len), HF__NUMBER(ticket),
                                HF__BYTES(claim->id.bytes, sizeof claim->id.bytes),
                                HF__NUMBER(hf__after_ms(sql->now_us, renewal->lease_ms)), HF__NUMBER(sql->now_us)};
        status = sql->ops->run(sql->conn, HF__SQL_RENEW, args, 5, NULL, NULL, &changed, sql->err);
        renewal->answer = changed > 0 ? HF_RENEWAL_RENEWED : HF_RENEWAL_GONE;
        return status;
    }
    hf__sql_value args[] = {HF__BYTES(claim->name, claim->name_len), HF__NUMBER(ticket),
                            HF__BYTES(claim->id.bytes, sizeof claim->id.bytes), HF__NUMBER(sql->now_us)};
    status = sql->ops->run(sql->conn, HF__SQL_LOOK, args, 4, take_number, &seen, NULL, sql->err);
    renewal->answer = seen != 0 ? HF_RENEWAL_HELD : HF_RENEWAL_GONE;
    return status;
}

static bool only_looks(const hf_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        if (request->renewals[i].lease_ms > 0)
            return false;
    }
    return true;
}

static int unknown(hf__sql *sql, hf_request *request, int status)
{
    for (size_t i = 0; i < request->count; i++)
        request->renewals[i].answer = HF_RENEWAL_UNKNOWN;
    if (sql != NULL)
        sql->ops->rollback(sql->conn);
    return status;
}

int hf__sql_renew(hf__sql *sql, hf_request *request)
{
    bool looks = only_looks(request);
    int  status;

    sql->err = &request->err;
    status = sql->ops->begin(sql->conn, !looks, request->deadline_us, &request->err);
    if (status != HF_OK)
        return unknown(NULL, request, status);
    status = sql->ops->now(sql->conn, &sql->now_us, &request->err);
    for (size_t i = 0; i < request->count && status == HF_OK; i++)
        status = renew_one(sql, &request->renewals[i]);
    if (status == HF_OK)
        status = sql->ops->commit(sql->conn, &request->err);
    return status == HF_OK ? HF_OK : unknown(sql, request, status);
}
