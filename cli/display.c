/* SPDX-License-Identifier: MIT */
/*
 * The line that shows who holds what we wait for. It is kept to one row of the terminal, since a longer one could not
 * be erased. The store is asked only where somebody looks: a waiter without a terminal costs nothing.
 */
#include "display.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "duration.h"
#include "guardian.h"
#include "holder.h"
#include "say.h"
#include "text.h"

#define FIRST_US INT64_C(300000) /* short waits show nothing */
#define LOOK_US INT64_C(2000000)

struct view {
    hf_holder holder;
    int64_t   holders;
    int64_t   place; /* ours */
    char      host[64];
};

static bool view_entry(const hf_entry *entry, void *arg)
{
    struct view *view = arg;

    if (entry->held && view->holders++ == 0)
        view->holder = entry->holder;
    if (!entry->held && entry->holder.pid == getpid() &&
        strncmp(entry->holder.host, view->host, sizeof(view->host) - 1) == 0)
        view->place = entry->place;
    return true;
}

static void look(struct display *display)
{
    struct view view = {0};
    hf_error    err;
    char        place[48] = "", others[48] = "";

    gethostname(view.host, sizeof(view.host) - 1);
    free(display->what);
    display->what = NULL;
    if (hf_list(display->client, display->name, view_entry, &view, &err) != HF_OK)
        return;
    if (view.place > 0)
        snprintf(place, sizeof(place), ", place %" PRId64 " in the queue", view.place);
    if (view.holders > 1)
        snprintf(others, sizeof(others), " and %" PRId64 " more", view.holders - 1);
    char *holder = view.holders > 0 ? holder_show(&view.holder) : NULL;
    if (asprintf(&display->what, "%s%s%s%s", holder != NULL ? "held " : "not held any more",
                 holder != NULL ? holder : "", others, place) < 0)
        display->what = NULL;
    free(holder);
}

static char *line(const struct display *display)
{
    char *text, waited[32];

    duration_show((guardian_now_us() - display->began_us) / 1000, waited, sizeof(waited));
    if (asprintf(&text, "holdfast: waiting for %s (%s), %s, store %s", display->shown, waited,
                 display->what != NULL ? display->what : "holder unknown", display->store) < 0)
        return NULL;
    return text;
}

static void draw(struct display *display)
{
    struct winsize size = {0};
    char          *text = line(display);

    if (text == NULL)
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        size.ws_col = 80;
    text_fit(text, size.ws_col - 1u);
    say_text("\r\033[K");
    say_text(text);
    free(text);
}

void display_begin(struct display *display, hf_client *client, const char *name, const char *shown, const char *store,
                   bool verbose)
{
    bool terminal = isatty(STDERR_FILENO);

    *display = (struct display){.client = client, .name = name, .shown = shown, .store = store};
    display->live = terminal;
    display->once = verbose && !terminal;
    display->began_us = guardian_now_us();
    display->next_us = display->live || display->once ? display->began_us + FIRST_US : INT64_MAX;
}

int display_tick(struct display *display)
{
    int64_t now = guardian_now_us();

    if (display->next_us == INT64_MAX)
        return -1;
    if (now < display->next_us)
        return (int)((display->next_us - now) / 1000 + 1);
    look(display);
    if (display->once) {
        char *text = line(display);
        if (text != NULL)
            say("%s", text + strlen("holdfast: "));
        free(text);
        display->next_us = INT64_MAX;
        return -1;
    }
    /* A terminal that was stopped shows it later, and once. */
    if (say_flush(0))
        draw(display);
    display->drawn = true;
    display->next_us = guardian_now_us() + LOOK_US;
    return (int)(LOOK_US / 1000);
}

void display_end(struct display *display)
{
    if (display->drawn)
        say_text("\r\033[K");
    free(display->what);
    *display = (struct display){.next_us = INT64_MAX};
}
