// SPDX-License-Identifier: MIT
//
// A stranger's program in C++: the handles in smart pointers, options by HF_OPTIONS_INIT. Exit code 0 when a reader
// shuts out a writer, and the writer gets in when the reader is gone.
#include <holdfast.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace
{

struct close_client {
    void operator()(hf_client *client) const
    {
        hf_close(client, 1000);
    }
};
struct free_lock {
    void operator()(hf_lock *lock) const
    {
        hf_free(lock);
    }
};
using client_ptr = std::unique_ptr<hf_client, close_client>;
using lock_ptr = std::unique_ptr<hf_lock, free_lock>;

void need(int status, int wanted, const char *what)
{
    if (status != wanted)
        throw std::runtime_error(std::string(what) + ": " + hf_status_name(status));
}

client_ptr open_client(const char *url)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_client        *client = nullptr;

    options.note = "consumer";
    need(hf_open(&client, url, &options, nullptr), HF_OK, "hf_open");
    return client_ptr(client);
}

void run(const char *url)
{
    client_ptr one = open_client(url), two = open_client(url);
    hf_options options = HF_OPTIONS_INIT;
    hf_lock   *reader = nullptr, *writer = nullptr;

    options.owner = HF_OWNER_HANDLE;
    need(hf_reader(&reader, one.get(), "install/c++", &options, nullptr), HF_OK, "hf_reader");
    lock_ptr reader_owner(reader);
    need(hf_writer(&writer, two.get(), "install/c++", &options, nullptr), HF_OK, "hf_writer");
    lock_ptr writer_owner(writer);

    need(hf_acquire(reader, HF_NOWAIT, nullptr, nullptr), HF_OK, "reader");
    need(hf_acquire(writer, HF_NOWAIT, nullptr, nullptr), HF_BUSY, "writer beside the reader");
    need(hf_release(reader, nullptr), HF_OK, "release of the reader");
    need(hf_acquire(writer, 5000, nullptr, nullptr), HF_OK, "writer");
    need(hf_release(writer, nullptr), HF_OK, "release of the writer");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    try {
        run(argv[1]);
    } catch (const std::exception &failure) {
        std::cerr << "consumer.cpp: " << failure.what() << '\n';
        return 1;
    }
    return 0;
}
