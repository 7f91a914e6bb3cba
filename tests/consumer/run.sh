#!/usr/bin/env bash
# run.sh PREFIX: the example as a program of a user who has installed vfa, by pkg-config and by CMake,
# and of one who has it as a Meson subproject. The installed tree is moved first: it must not matter.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/tests/support/report.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/moved"
cp -a "$1" "$work/moved/prefix"
prefix=$work/moved/prefix
source_file=$root/examples/forward.c

by_pkg_config() {
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    # Not quoted: options to be split.
    ${CC:-cc} -o "$work/by-pkg-config" "$source_file" $(pkg-config --cflags --libs vfa) || return 1
    LD_LIBRARY_PATH=$prefix/lib "$work/by-pkg-config"
}

by_cmake() {
    command -v cmake >/dev/null || { echo 'cmake is not here' && return 77; }
    # && : "set -e" does not hold inside a function that check calls.
    cmake -S "$root/tests/consumer/cmake" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCONSUMER_SOURCE="$source_file" &&
        cmake --build "$work/cmake" && "$work/cmake/consumer"
}

by_meson() {
    mkdir -p "$work/meson/subprojects" &&
        cp "$root/tests/consumer/meson/meson.build" "$source_file" "$work/meson" &&
        ln -s "$root" "$work/meson/subprojects/vfa" &&
        # Not optimized: it is about the build files.
        meson setup "$work/meson/build" "$work/meson" -Dvfa:optimization=0 &&
        meson test -C "$work/meson/build" --print-errorlogs
}

installed_info() { "$prefix/bin/vfa-info"; }

check 'a C program finds vfa by pkg-config' by_pkg_config
check 'a C program finds vfa by CMake' by_cmake
check 'a C project has vfa as a Meson subproject' by_meson
check 'the installed vfa-info runs' installed_info
finish
