/* SPDX-License-Identifier: MIT */
/* A counter in a file that takes fences; see the header. */
#include "guarded.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

int guarded_open(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void state_load(int fd, guarded_state *state)
{
    *state = (guarded_state){0};
    if (pread(fd, state, sizeof(*state), 0) < 0) {
        perror("guarded: read");
        _exit(3);
    }
}

static void state_store(int fd, const guarded_state *state)
{
    if (pwrite(fd, state, sizeof(*state), 0) != (ssize_t)sizeof(*state)) {
        perror("guarded: write");
        _exit(3);
    }
}

bool guarded_read(int fd, int64_t fence, int64_t *value)
{
    guarded_state state;
    bool          fine;

    flock(fd, LOCK_EX);
    state_load(fd, &state);
    fine = fence == 0 || fence >= state.fence;
    if (fine && fence > state.fence) {
        state.fence = fence;
        state_store(fd, &state);
    }
    flock(fd, LOCK_UN);
    *value = state.value;
    return fine;
}

bool guarded_write(int fd, int64_t fence, int64_t value)
{
    guarded_state state;
    bool          fine;

    flock(fd, LOCK_EX);
    state_load(fd, &state);
    fine = fence == 0 || fence >= state.fence;
    if (fine) {
        state.value = value;
        state.taken++;
        if (fence > state.fence)
            state.fence = fence;
        state_store(fd, &state);
    }
    flock(fd, LOCK_UN);
    return fine;
}

bool guarded_write_until(int fd, int64_t deadline_us, int64_t value)
{
    guarded_state   state;
    struct timespec t;

    flock(fd, LOCK_EX);
    state_load(fd, &state);
    clock_gettime(CLOCK_BOOTTIME, &t);
    bool fine = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 < deadline_us;
    if (fine) {
        state.value = value;
        state.taken++;
        state_store(fd, &state);
    }
    flock(fd, LOCK_UN);
    return fine;
}

guarded_state guarded_look(int fd)
{
    guarded_state state;

    flock(fd, LOCK_SH);
    state_load(fd, &state);
    flock(fd, LOCK_UN);
    return state;
}
