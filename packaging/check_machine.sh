#!/bin/sh
# Says in one line what this machine lacks to build rtclab, and how to get it; nothing if it lacks nothing.
# check_machine.sh PYTHON, in the directory of the source
python=$1
least_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

lacks() {
  echo "rtclab cannot be built here: $1" >&2
  exit 1
}

"$python" -c '' 2>/dev/null || lacks "\`$python\` does not run; install Python 3.11 or newer (Debian: apt-get install python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  lacks "\`$python\` is $("$python" -V); expected Python 3.11 or newer, which \`make PYTHON=python3.11\` would choose"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  lacks "\`$python\` has no venv; Debian: apt-get install python3-venv"
command -v cc >/dev/null || lacks "no C compiler \`cc\`; Debian: apt-get install build-essential"
rust=$(rustc --version 2>/dev/null | cut -d' ' -f2)
get_rust="install it from https://rustup.rs (Debian 13 or newer: apt-get install cargo)"
[ -n "$rust" ] && command -v cargo >/dev/null || lacks "no Rust; $get_rust"
[ "$(printf '%s\n' "$least_rust" "$rust" | sort -V | head -n 1)" = "$least_rust" ] ||
  lacks "Rust $rust is older than $least_rust; $get_rust"
