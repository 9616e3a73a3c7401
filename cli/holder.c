/* SPDX-License-Identifier: MIT */
/* Putting what a store tells of a holder into words; all of it is foreign text. */
#include "holder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text.h"

const char *holder_time(int64_t since_ms, char *text, size_t size)
{
    time_t    then = (time_t)(since_ms / 1000), now = time(NULL);
    struct tm then_tm, now_tm;

    if (localtime_r(&then, &then_tm) == NULL || localtime_r(&now, &now_tm) == NULL) {
        snprintf(text, size, "?");
        return text;
    }
    bool today = then_tm.tm_yday == now_tm.tm_yday && then_tm.tm_year == now_tm.tm_year;
    strftime(text, size, today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then_tm);
    return text;
}

char *holder_store(const hf_client *client)
{
    const char *url = hf_client_url(client);

    return text_show(url, strlen(url));
}

static char *show_field(const char *field, size_t size)
{
    return text_show(field, strnlen(field, size));
}

char *holder_show(const hf_holder *holder)
{
    char *host = show_field(holder->host, sizeof(holder->host));
    char *program = show_field(holder->program, sizeof(holder->program));
    char *note = show_field(holder->note, sizeof(holder->note));
    char *text = NULL, since[40] = "", at[32], pid[24] = "";

    if (holder->since_ms > 0)
        snprintf(since, sizeof(since), " since %s", holder_time(holder->since_ms, at, sizeof(at)));
    if (holder->pid > 0)
        snprintf(pid, sizeof(pid), ":%" PRId64, holder->pid);
    if (host != NULL && program != NULL && note != NULL) {
        bool both = *program != '\0' && *note != '\0', any = *program != '\0' || *note != '\0';
        if (asprintf(&text, "by %s%s%s%s%s%s%s%s", *host != '\0' ? host : "somebody", pid, any ? " (" : "", program,
                     both ? ", " : "", note, any ? ")" : "", since) < 0)
            text = NULL;
    }
    free(host);
    free(program);
    free(note);
    return text;
}
