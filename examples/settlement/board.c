/* SPDX-License-Identifier: MIT */

/*
 * The board: shared memory by a mapped file, with atomics only, so that a process may die at any instruction and leave
 * it in order.
 */
#include "board.h"

#include "die.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t board_size(uint32_t requests)
{
    return sizeof(struct board) + requests;
}

static struct board *board_map(int fd, size_t size, const char *path)
{
    struct board *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        die("cannot map %s: %s", path, strerror(errno));
    close(fd);
    return board;
}

struct board *board_create(const char *path, uint32_t requests)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)board_size(requests)) != 0)
        die("cannot make %s: %s", path, strerror(errno));
    struct board *board = board_map(fd, board_size(requests), path);
    board->requests = requests;
    return board;
}

struct board *board_open(const char *path)
{
    struct stat status;
    int         fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        die("cannot open %s: %s", path, strerror(errno));
    return board_map(fd, (size_t)status.st_size, path);
}

void board_close(struct board *board)
{
    munmap(board, board_size(board->requests));
}

int64_t board_take(struct board *board)
{
    unsigned index = atomic_fetch_add(&board->next, 1);
    return index < board->requests ? (int64_t)index : -1;
}

void board_answer(struct board *board, int64_t index, enum answer answer)
{
    atomic_store(&board->answers[index], (unsigned char)answer);
    atomic_fetch_add(&board->answered, 1);
}

int64_t board_count(const struct board *board, enum answer answer)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < board->requests; i++)
        count += atomic_load(&board->answers[i]) == answer;
    return count;
}
