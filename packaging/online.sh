#!/bin/sh
# Runs a command that downloads, and says what to do if it fails: online.sh COMMAND ...
"$@" && exit
echo "hint: if the network was missing, the same command goes on when it is there" >&2
exit 1
