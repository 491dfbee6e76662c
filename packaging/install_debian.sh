#!/bin/sh
# Installs those of the given Debian packages that are missing, after saying which: install_debian.sh PACKAGE ...
# Exits with 1 if some are still missing. SUDO is the command that makes root, such as `sudo -n`.
is_installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing() {
  for package in "$@"; do is_installed "$package" || printf '%s ' "$package"; done
}

# Installing these starts a service of the same name for everybody. Live calls start their own.
mask_services() {
  [ -d /run/systemd/system ] || return 0
  for service in coturn janus; do
    case " $* " in *" $service "*) $SUDO systemctl mask "$service.service" ;; esac
  done
}

install() {
  $SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "$@" >/dev/null
}

# Finishes an installation that was interrupted, with what its packages still lack.
finish_interrupted() {
  [ -z "$(dpkg --audit)" ] || $SUDO dpkg --configure -a >/dev/null 2>&1 || install --fix-broken --no-remove
}

command -v dpkg-query >/dev/null || {
  echo "this is no Debian; not installed: $*" >&2
  exit 1
}
wanted=$(missing "$@")
[ -n "$wanted" ] || exit 0
[ "$(id -u)" -eq 0 ] && SUDO=
echo "Debian packages that live calls and their tests need, and that are missing here: $wanted"
if ! $SUDO true; then
  echo "not installed, because this user is not root; this command installs them: sudo apt-get install $wanted" >&2
  exit 1
fi
mask_services $wanted
$SUDO apt-get update -qq
finish_interrupted
# Where one package does not exist or cannot be installed, the others still are.
install $wanted || for package in $wanted; do install "$package"; done
still=$(missing $wanted)
[ -z "$still" ] && exit 0
echo "apt-get could not install: $still" >&2
exit 1
