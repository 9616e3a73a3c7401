/* SPDX-License-Identifier: MIT */
/* `holdfast schema`: prints the SQL that makes a store's tables, for those who do not let a program make any. */
#include <stdio.h>
#include <string.h>

#include <holdfast.h>

#include "exit.h"
#include "help.h"
#include "say.h"
#include "verbs.h"

int schema_main(int argc, char **argv)
{
    const char *schema;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help_schema();
        return CODE_OK;
    }
    if (argc != 2)
        return say_usage("schema", "one store is named: mysql, postgresql or sqlite");
    schema = hf_schema(argv[1]);
    if (schema == NULL) {
        say("this build has no tables for a store '%s'; it knows: %s", argv[1], hf_schemes());
        return CODE_STORE;
    }
    fputs(schema, stdout);
    return CODE_OK;
}
