#!/bin/sh
# Calls rustc for cargo, with two changes.
rustc=$1
shift
for argument; do
    shift
    case $argument in
    # Functions have the same names for every target, so that the profile of one target fits all.
    metadata=*) argument=metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION ;;
    # What Windows' module exports. For MinGW, maturin 1.16 names PyInit_rtclab._native, which does not exist.
    link-arg=*/maturin/*.def) printf 'EXPORTS\n    PyInit__native\n' >"${argument#link-arg=}" ;;
    esac
    set -- "$@" "$argument"
done
exec "$rustc" "$@"
