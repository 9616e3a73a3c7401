/* SPDX-License-Identifier: MIT */

/*
 * Reads the file of settlement requests. It is strict: a line that is not five good fields ends the program, since a
 * request that is left out without a word would be an order that nobody charges.
 */
#include "csv.h"

#include "die.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char header[] = "request,order,cabinet,amount_cents,door_closed";

/* Cuts the next field off and copies it. False: it is missing, empty or too long. */
static bool field_take(char **rest, char *to, size_t size)
{
    const char *field = strsep(rest, ",");
    if (field == NULL || *field == '\0' || strlen(field) >= size)
        return false;
    strcpy(to, field);
    return true;
}

static bool amount_take(char **rest, int64_t *amount_cents)
{
    char  text[16];
    char *end;
    if (!field_take(rest, text, sizeof text))
        return false;
    errno = 0;
    *amount_cents = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && *amount_cents > 0;
}

static bool request_parse(struct request *request, char *line)
{
    return field_take(&line, request->id, sizeof request->id) &&
           field_take(&line, request->order, sizeof request->order) &&
           field_take(&line, request->cabinet, sizeof request->cabinet) && amount_take(&line, &request->amount_cents) &&
           field_take(&line, request->door_closed, sizeof request->door_closed) && line == NULL;
}

static struct request *requests_grow(struct requests *requests)
{
    if ((requests->count & (requests->count - 1)) == 0) { /* full at each power of two */
        size_t room = requests->count == 0 ? 1 : requests->count * 2;
        requests->list = realloc(requests->list, room * sizeof *requests->list);
        if (requests->list == NULL)
            die("out of memory");
    }
    return &requests->list[requests->count++];
}

void requests_read(struct requests *requests, const char *path)
{
    *requests = (struct requests){NULL, 0};
    FILE *file = fopen(path, "re");
    if (file == NULL)
        die("cannot read %s: %s", path, strerror(errno));

    char  *line = NULL;
    size_t size = 0;
    for (int number = 1; getline(&line, &size, file) > 0; number++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (number == 1 && strcmp(line, header) != 0)
            die("%s: the first line is not \"%s\"", path, header);
        if (number > 1 && !request_parse(requests_grow(requests), line))
            die("%s:%d: not a settlement request", path, number);
    }
    if (ferror(file))
        die("cannot read %s: %s", path, strerror(errno));
    if (requests->count == 0)
        die("%s: no requests in it", path);
    free(line);
    fclose(file);
}

void requests_free(struct requests *requests)
{
    free(requests->list);
    *requests = (struct requests){NULL, 0};
}
