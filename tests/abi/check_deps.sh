#!/usr/bin/env bash
# check_deps.sh LIBRARY SONAME: what the library asks of a machine at run time.
set -euo pipefail
source "$(dirname "$0")/../support/report.sh"
library=$1
soname=$2

# libgcc_s and libpthread come with libstdc++ and libc. Drivers of GPUs are loaded by dlopen, later.
only_basic_libraries() {
    ! readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$'
}

no_search_path() { ! readelf -d "$library" | grep -E '\((RPATH|RUNPATH)\)'; }

has_soname() { readelf -d "$library" | grep -F "(SONAME)" | grep -F "[$soname]"; }

# An executable stack or relocations in code make some systems refuse the library.
no_text_relocations() { ! readelf -d "$library" | grep -F TEXTREL; }
no_executable_stack() { ! readelf -lW "$library" | grep 'GNU_STACK.*E  *0x'; }

below_2_mb() {
    local size
    size=$(strip -o /dev/stdout "$library" | wc -c)
    echo "$size bytes"
    [ "$size" -lt 2000000 ]
}

check 'needs only libc, libm, libstdc++ and libgcc_s' only_basic_libraries
check 'has no search path of its own' no_search_path
check "its SONAME is $soname" has_soname
check 'has no text relocations' no_text_relocations
check 'has no executable stack' no_executable_stack
check 'is smaller than 2 MB when stripped' below_2_mb
finish
