/* SPDX-License-Identifier: MIT */
/* What --help prints. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

void help_main(void);
void help_run(void);
void help_ls(void);
void help_show(void);
void help_break(void);
void help_doctor(void);
void help_schema(void);

#endif
