#!/usr/bin/env bash
# check_symbols.sh LIBRARY HEADER: what the library exports, what the header declares and the list
# vfa.symbols beside this script are the same. Names leave the list only with a new SONAME.
set -euo pipefail
here=$(dirname "$0")
source "$here/../support/report.sh"

# VFA_0, the name of the version, is an absolute symbol: no function.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort; }

check 'the library exports what vfa.symbols lists' \
    diff -u "$here/vfa.symbols" <(exported "$1")
check 'vfa.h declares what vfa.symbols lists' \
    diff -u "$here/vfa.symbols" <("$here/../support/header_functions.sh" "$2")
finish
