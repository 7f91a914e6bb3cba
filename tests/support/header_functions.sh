#!/bin/sh
# header_functions.sh HEADER [FORMAT]: the names of the functions that vfa.h declares, sorted, each as
# printf does it with FORMAT.
awk -v format="${2:-%s}" '!/^#/ { text = text " " $0 }
     END {
         while (match(text, "/[*]")) { # take out the comments
             rest = substr(text, RSTART + 2)
             text = substr(text, 1, RSTART - 1) substr(rest, index(rest, "*/") + 2)
         }
         count = split(text, declarations, ";")
         for (i = 1; i <= count; i++)
             if (match(declarations[i], "VFA_API [^(]*[(]")) {
                 name = substr(declarations[i], RSTART, RLENGTH - 1)
                 sub(".*[ *]", "", name)
                 printf(format "\n", name)
             }
     }' "$1" | LC_ALL=C sort
