#!/bin/sh
# Adds a program to the scripts of a wheel: add_program.sh WHEEL PROGRAM DIRECTORY
# The new wheel goes to the directory. PYTHON has the package wheel.
set -eu
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
"$PYTHON" -m wheel unpack --dest "$unpacked" "$1"
for root in "$unpacked"/*; do
    scripts=$root/$(basename "$root").data/scripts
    mkdir -p "$scripts"
    install -m 755 "$2" "$scripts/"
    "$PYTHON" -m wheel pack --dest-dir "$3" "$root"
done
