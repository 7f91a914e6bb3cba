#!/usr/bin/env bash
# header.sh INCLUDE_DIR: vfa.h compiles alone and without a warning, in each language version and
# with each compiler that is here.
set -euo pipefail
source "$(dirname "$0")/../support/report.sh"
include=$1

# compiles COMPILER LANGUAGE STANDARD OPTION...
compiles() {
    echo '#include <vfa/vfa.h>' |
        "$1" -x "$2" "-std=$3" "${@:4}" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" -
}

for compilers in 'gcc g++' 'clang clang++'; do
    read -r c cxx <<<"$compilers"
    if ! command -v "$cxx" >/dev/null; then
        check "vfa.h with $cxx" sh -c "echo '$cxx is not here'; exit 77"
        continue
    fi
    for standard in c99 c11 c17; do
        check "vfa.h with $c in $standard" compiles "$c" c "$standard"
    done
    for standard in c++98 c++11 c++14 c++17 c++20; do
        check "vfa.h with $cxx in $standard" compiles "$cxx" c++ "$standard"
    done
    check "vfa.h with $c without attributes" compiles "$c" c c99 -DVFA_API=
done
finish
