# SPDX-License-Identifier: Apache-2.0
#
# Functions for scripts that make bare roots of Debian. Packages come from the mirror that apt is
# configured for.

# mirror: prints the address of the first mirror of Debian, or nothing.
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

# network_settings: prints what apt must know to reach the mirror.
network_settings() {
  apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries)' || true
  [ -z "${http_proxy:-}" ] || echo "Acquire::http::Proxy \"$http_proxy\";"
  [ -z "${https_proxy:-}" ] || echo "Acquire::https::Proxy \"$https_proxy\";"
}

# bare_root CODENAME FOLDER LOG [PACKAGES [OPTION...]]: PACKAGES, separated by commas, are added.
bare_root() (
  codename=$1 folder=$2 log=$3 packages=${4:-}
  shift 3
  [ $# -eq 0 ] || shift
  from=$(mirror)
  case $from in
    https:*) packages=$packages,ca-certificates ;;
  esac
  debootstrap --variant=minbase ${packages:+--include="${packages#,}"} "$@" "$codename" \
    "$folder" "$from" >"$log" 2>&1 || exit 1
  network_settings >"$folder/etc/apt/apt.conf.d/80mirror"
)
