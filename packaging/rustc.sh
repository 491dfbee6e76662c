#!/bin/sh
# Calls rustc for cargo, with the same names of functions for every target. So the profile of one target fits all.
rustc=$1
shift
for argument; do
    shift
    case $argument in
    metadata=*) argument=metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION ;;
    esac
    set -- "$@" "$argument"
done
exec "$rustc" "$@"
