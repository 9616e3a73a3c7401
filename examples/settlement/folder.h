/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_FOLDER_H
#define SETTLEMENT_FOLDER_H

/* The folder of a demonstration: made new, for this user alone, and removed with all that is in it. */
#include <limits.h>
#include <stdbool.h>

/* Makes a new folder in `wish`; where that is NULL in $TMPDIR, the build folder or /tmp, whichever works first. It goes
 * when the program ends, also by die(), unless it is to be kept. */
void folder_find(char folder[PATH_MAX], const char *wish, bool keep);

/* Makes `name` in it; the path goes to `part`. */
void folder_make(char part[PATH_MAX], const char *folder, const char *name);

#endif
