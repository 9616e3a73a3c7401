/* SPDX-License-Identifier: MIT */
/* Passwords in store URLs: taken out of the argument list and of the environment before anybody else can read them. */
#ifndef CLI_SECRET_H
#define CLI_SECRET_H

/* A copy of the URL with its password; the password is cut out of `url` itself. NULL where there is no memory. */
char *secret_take(char *url);

/* The same for $HOLDFAST_STORE, in place, so that no child inherits it. NULL where it is not set. */
char *secret_take_environment(void);

/* Once the store is open: the password that stores read from a variable of its own is wiped there. */
void secret_forget_environment(void);

/* The URL with one more parameter ("break=polite"); the first one, which may be NULL for the user's own store, is wiped
 * and freed. NULL: no memory. */
char *secret_with(char *url, const char *parameter);

/* Wipes and frees what the first two gave. NULL is allowed. */
void secret_free(char *url);

#endif
