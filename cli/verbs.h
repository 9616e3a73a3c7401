/* SPDX-License-Identifier: MIT */
/* The verbs of the command. Each gets its own name as argv[0] and returns the exit code. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

int run_main(int argc, char **argv);
int ls_main(int argc, char **argv);
int show_main(int argc, char **argv);
int break_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int schema_main(int argc, char **argv);

#endif
