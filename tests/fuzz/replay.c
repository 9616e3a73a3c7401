/* SPDX-License-Identifier: MIT */
/*
 * The plain driver of a fuzz target: replays each file of a corpus, then seeded mutations of it, then random inputs.
 * The same arguments give the same inputs on every machine. Before each input it is written to "input" in the working
 * folder when the run is repeated with HF_FUZZ_KEEP=1: what a crash leaves there goes into the corpus.
 *
 *      fuzz_url CORPUS MUTATIONS SEED
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>

#define INPUT_MAX 8192

typedef struct input {
    uint8_t bytes[INPUT_MAX];
    size_t  size;
} input;

/* splitmix64: small, and the same everywhere. */
static uint64_t random_state;

static uint64_t random_next(void)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static size_t random_below(size_t bound)
{
    return bound == 0 ? 0 : (size_t)(random_next() % bound);
}

static void keep(const input *in)
{
    FILE *file;

    if (getenv("HF_FUZZ_KEEP") == NULL || (file = fopen("input", "w")) == NULL)
        return;
    fwrite(in->bytes, 1, in->size, file);
    fclose(file);
}

/* A copy of exactly its size, so that a sanitizer sees a read beyond it. */
static void run(const input *in)
{
    uint8_t *copy = malloc(in->size + (in->size == 0));

    NEED(copy != NULL);
    memcpy(copy, in->bytes, in->size);
    keep(in);
    NEED(LLVMFuzzerTestOneInput(copy, in->size) == 0);
    free(copy);
}

static void load(input *in, const char *folder, const char *name)
{
    char  path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r");
    NEED(file != NULL);
    in->size = fread(in->bytes, 1, sizeof in->bytes, file);
    fclose(file);
}

static void insert(input *in, size_t at, uint8_t byte)
{
    if (in->size == INPUT_MAX)
        return;
    memmove(in->bytes + at + 1, in->bytes + at, in->size - at);
    in->bytes[at] = byte;
    in->size++;
}

static void erase(input *in, size_t at, size_t count)
{
    memmove(in->bytes + at, in->bytes + at + count, in->size - at - count);
    in->size -= count;
}

/* Bytes that mean something to a parser come up more often than chance would have it. */
static uint8_t random_byte(void)
{
    static const char telling[] = "%:/?#[]@&=+,;.\\ \"'0aF";

    return random_below(2) == 0 ? (uint8_t)random_next() : (uint8_t)telling[random_below(sizeof telling)];
}

static void mutate(input *in)
{
    for (size_t steps = 1 + random_below(6); steps > 0; steps--) {
        size_t at = random_below(in->size + 1);

        switch (random_below(4)) {
        case 0:
            insert(in, at, random_byte());
            break;
        case 1:
            if (at < in->size)
                in->bytes[at] = random_byte();
            break;
        case 2:
            erase(in, at, random_below(in->size - at + 1));
            break;
        case 3:
            for (size_t i = random_below(64); i > 0; i--)
                insert(in, at, in->size > at ? in->bytes[at] : random_byte());
            break;
        }
    }
}

static size_t run_file(const char *folder, const char *name, size_t mutations)
{
    static input original, changed;

    load(&original, folder, name);
    run(&original);
    for (size_t i = 0; i < mutations; i++) {
        changed = original;
        mutate(&changed);
        run(&changed);
    }
    return 1 + mutations;
}

static size_t run_random(size_t count)
{
    static input in;

    for (size_t i = 0; i < count; i++) {
        in.size = random_below(random_below(8) == 0 ? 1200 : 80);
        for (size_t j = 0; j < in.size; j++)
            in.bytes[j] = random_byte();
        run(&in);
    }
    return count;
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    size_t          mutations, runs = 0;
    int             count;

    if (argc != 4) {
        fprintf(stderr, "usage: %s CORPUS MUTATIONS SEED\n", argv[0]);
        return 64;
    }
    mutations = strtoul(argv[2], NULL, 10);
    random_state = strtoul(argv[3], NULL, 10);
    count = scandir(argv[1], &entries, is_file, alphasort);
    NEED(count > 0);
    for (int i = 0; i < count; i++) {
        runs += run_file(argv[1], entries[i]->d_name, mutations);
        free(entries[i]);
    }
    free(entries);
    runs += run_random(mutations * 4);
    printf("%d files of the corpus, %zu inputs in all, seed %s: nothing broken\n", count, runs, argv[3]);
    return 0;
}
