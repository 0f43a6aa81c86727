#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The two commands of README.md on bare machines: roots.sh [RELEASE...], or ./dev check roots.
#
# For each release of Debian, debootstrap makes a bare root folder. The tree of HEAD is copied into
# that root, and `./dev demo` and `./dev test` run there: as an ordinary user who has small limits
# and sudo, and as root; with /tmp on disk and in memory. Each run prints a row.
#
# build/roots keeps the bare roots, the packages and the logs. The last roots stay there as well, to
# be looked at with chroot. Packages come from the mirror that apt is configured for.
#
# What is compiled depends neither on the user nor on /tmp, so the rows of a release share one tree:
# its first `demo` and its first `test` compile, the others find everything built, and run.
# If RINGLOAD_ROOTS_CCACHE names a folder, the compilers of the roots keep their objects there by
# ccache, so that the next run compiles only what has changed. Then the times of the rows say less.
#
# `roots.sh bundle [RELEASE]`, or ./dev check bundle, runs the programs of build/bundle.tgz in a
# bare root instead.
#
# All mounts are made in a mount namespace of the script's own. The kernel removes them with the
# last process of that namespace, and kills its processes with this script.

set -eu
cd "$(dirname "$0")/.."
. cmake/release/bare_root.sh
work=$PWD/build/roots
user=somebody

skip() {
  echo "roots: skipped: $*"
  exit 0
}

codename_of() {
  case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    *) return 1 ;;
  esac
}

# --- outside of the namespace: the bare roots

# make_bare_root RELEASE: build/roots/bare-RELEASE.tar
make_bare_root() {
  bare=$work/bare-$1.tar
  [ ! -e "$bare" ] || return 0
  echo "roots: making a bare root of Debian $1" >&2
  new=$work/new-$1
  rm -rf "$new"
  bare_root "$(codename_of "$1")" "$new" "$work/log/debootstrap-$1.log" sudo \
    --cache-dir="$work/packages" || return 1
  tar -C "$new" -cf "$bare.part" .
  mv "$bare.part" "$bare"
  rm -rf "$new"
}

# --- in the namespace

# run WHO COMMAND: runs ./dev COMMAND in $root as that user, and gives its exit code.
run() (
  home=$(chroot "$root" getent passwd "$1" | cut -d : -f 6)
  chroot "$root" chown -R "$1:$1" /home/$user/ringload
  if [ "$1" != root ]; then
    ulimit -l 8192
    ulimit -n 1024
  fi
  exec chroot "$root" setpriv --reuid="$1" --regid="$1" --init-groups env -i \
    USER="$1" HOME="$home" PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    ${CMAKE_BUILD_PARALLEL_LEVEL:+CMAKE_BUILD_PARALLEL_LEVEL=$CMAKE_BUILD_PARALLEL_LEVEL} \
    ${RINGLOAD_ROOTS_CCACHE:+CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/ccache CCACHE_UMASK=0 \
    CCACHE_SLOPPINESS=pch_defines,time_macros} \
    sh -c "cd /home/$user/ringload && exec ./dev $2"
)

# Counts of ctest's output, and the names of the tests that failed.
details() {
  sed -n 's/.* tests failed out of \([0-9]*\)$/\1 tests/p' "$1"
  skipped=$(grep -c '\*\*\*Skipped' "$1") || true
  [ "$skipped" -eq 0 ] || echo ", $skipped skipped"
  sed -n '/^The following tests FAILED:/,$ s/^[ \t]*[0-9]* - \([^ ]*\) (\([^)]*\)).*/, \1 \2/p' "$1"
}

row() {
  printf '%-10s %-9s %-8s %-11s %-7s %6s s  %s\n' "$@"
}

# run_and_report RELEASE WHO TMP COMMAND
run_and_report() {
  log=$work/log/debian-$1-$2-$3-$4.log
  begin=$(date +%s)
  verdict=passed
  run "$2" "$4" >"$log" 2>&1 </dev/null || verdict=FAILED
  row "Debian $1" "$2" "$3" "./dev $4" $verdict $(($(date +%s) - begin)) "$(details "$log" |
    tr -d '\n')" | tee -a "$work/rows"
  [ $verdict = passed ]
}

enter_root() {
  root=$work/debian-$1
  rm -rf --one-file-system "$root"
  mkdir "$root"
  tar -C "$root" -xpf "$work/bare-$1.tar"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mount -t proc proc "$root/proc"
  mount --bind "$work/packages" "$root/var/cache/apt/archives"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  chroot "$root" useradd --create-home --shell /bin/bash $user
  echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
  mkdir "$root/home/$user/ringload"
  git archive HEAD | tar -x -C "$root/home/$user/ringload"
  [ -z "${RINGLOAD_ROOTS_CCACHE:-}" ] || share_ccache "$1"
}

# share_ccache RELEASE: the folder for that release, which root and the user may write.
share_ccache() {
  mkdir -p "$RINGLOAD_ROOTS_CCACHE/debian-$1" "$root/ccache"
  chmod 777 "$RINGLOAD_ROOTS_CCACHE/debian-$1"
  mount --bind "$RINGLOAD_ROOTS_CCACHE/debian-$1" "$root/ccache"
  chroot "$root" sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends ccache' \
    >"$work/log/ccache-$1.log" 2>&1
}

inside() {
  failed=0
  for release in "$@"; do
    enter_root "$release"
    for tmp in disk memory; do
      [ $tmp = disk ] || mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
      for who in $user root; do
        for command in demo test; do
          run_and_report "$release" $who $tmp $command || failed=1
        done
      done
    done
  done
  exit $failed
}

# The bundle in a bare root: there are no compiler and no libraries but those of Debian's base.
inside_bundle() {
  root=$work/bundle
  rm -rf --one-file-system "$root"
  mkdir "$root"
  tar -C "$root" -xpf "$work/bare-$1.tar"
  tar -C "$root" -xzf build/bundle.tgz
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  if chroot "$root" sh -c 'command -v cc || command -v c++ || command -v nvcc'; then
    echo "roots: FAILED: the bare root has a compiler"
    exit 1
  fi
  exec chroot "$root" env -i PATH=/usr/bin:/bin sh /bundle/bench/gpu/try.sh
}

if [ "${1:-}" = --inside ]; then
  shift
  inside "$@"
fi
if [ "${1:-}" = --inside-bundle ]; then
  inside_bundle "$2"
fi

mode=trees
if [ "${1:-}" = bundle ]; then
  mode=bundle
  shift
  [ $# -gt 0 ] || set -- 12
  [ -e build/bundle.tgz ] || skip "there is no build/bundle.tgz: ./dev bundle makes it"
fi

[ $# -gt 0 ] || set -- 12 13
[ "$(id -u)" -eq 0 ] || skip "chroot and mounts need root"
for tool in debootstrap unshare setpriv git; do
  command -v $tool >/dev/null || skip "$tool is not installed"
done
[ -n "$(mirror)" ] || skip "apt is not configured for a mirror of Debian"
unshare --mount true 2>/dev/null || skip "mount namespaces are refused here"

mkdir -p "$work/log" "$work/packages"
exec 9>"$work/lock"
flock -n 9 || skip "another run is using build/roots"
made=
for release in "$@"; do
  codename_of "$release" >/dev/null || skip "Debian $release is not known"
  if make_bare_root "$release"; then
    made="$made $release"
  else
    echo "roots: Debian $release: skipped: see build/roots/log/debootstrap-$release.log"
  fi
done
if [ $mode = bundle ]; then
  [ -n "$made" ] || exit 0
  # shellcheck disable=SC2086
  exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child sh "$0" \
    --inside-bundle $made
fi
: >"$work/rows"
row release user /tmp command result time tests
# shellcheck disable=SC2086
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child sh "$0" --inside $made
