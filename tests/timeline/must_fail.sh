#!/bin/sh
# SPDX-License-Identifier: MIT
# must_fail.sh RULE PROGRAM [ARGUMENTS]: succeeds where the program fails with a violation of this rule.
rule=$1
shift
if "$@" >out.txt 2>&1; then
    echo "it passed, and should not have:"
    cat out.txt
    exit 1
fi
head -n 1 out.txt
grep -q "^violation of $rule" out.txt
