/* SPDX-License-Identifier: MIT */

/*
 * Readers and a writer. The writer builds the price list, then goes on as a reader of what it built: it takes the
 * reader while it still is the writer, and gives the writer back first. No other writer can slip in between.
 *
 * The other way round there is no safe step: a reader that asks for the writer is told so at once. Two readers that
 * both waited to become the writer would wait for each other for ever.
 */
#include "example.h"

int main(int argc, char *argv[])
{
    hf_client *client = example_open(argc, argv);
    hf_client *other_client = example_open(argc, argv); /* stands for another process */
    hf_lock   *reader, *writer, *other_reader, *other_writer;
    hf_error   err;

    CHECK(hf_reader(&reader, client, "price-list", NULL, &err));
    CHECK(hf_writer(&writer, client, "price-list", NULL, &err));
    CHECK(hf_reader(&other_reader, other_client, "price-list", NULL, &err));
    CHECK(hf_writer(&other_writer, other_client, "price-list", NULL, &err));

    CHECK(hf_acquire(writer, 3000, NULL, &err));
    printf("we write; another reader: %s\n", hf_status_name(hf_acquire(other_reader, HF_NOWAIT, NULL, &err)));

    CHECK(hf_acquire(reader, HF_NOWAIT, NULL, &err));
    CHECK(hf_release(writer, &err));
    EXPECT(hf_acquire(other_writer, HF_NOWAIT, NULL, &err) == HF_BUSY);
    CHECK(hf_acquire(other_reader, 3000, NULL, &err));
    printf("downgraded: other readers are in, other writers are not\n");

    int status = hf_acquire(writer, HF_FOREVER, NULL, &err);
    EXPECT(status == HF_WOULD_DEADLOCK);
    printf("upgrade: %s\n", hf_status_name(status));

    CHECK(hf_release(reader, &err));
    CHECK(hf_release(other_reader, &err));
    CHECK(hf_acquire(other_writer, 3000, NULL, &err));
    printf("both readers left: the other writer is in\n");
    CHECK(hf_release(other_writer, &err));

    hf_free(reader);
    hf_free(writer);
    hf_free(other_reader);
    hf_free(other_writer);
    hf_close(client, 1000);
    hf_close(other_client, 1000);
    return 0;
}
