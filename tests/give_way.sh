#!/bin/sh
# Runs a command that gives way to everything else: give_way.sh NICENESS COMMAND ..., in a session of its own.
# Linux shares the processors between sessions first, and within each of them by niceness.
{ echo "$1" > /proc/self/autogroup; } 2>/dev/null
niceness=$1
shift
exec nice -n "$niceness" "$@"
