#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages without a compiler, uses them, installs them again, and purges them. No
# package and no file may stay behind. At the end a compiler is installed, and the first program of
# README.md is compiled and run.
#
# Runs in a bare root of Debian 12. Its folder /try has the packages, example.py, chunked.h5 with
# its .manifest, and README.md.

set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root TERM=xterm
names() { dpkg-query -W -f '${Package}\n' | sort; }
files() {
  find / -xdev \( -path /proc -o -path /try -o -path /tmp -o -path /var/cache -o -path /var/lib -o \
    -path /var/log -o -path /root -o -name __pycache__ \) -prune -o -print | sort
}
install() { apt-get -qq -y install --no-install-recommends "$@" >/dev/null; }

begin() {
  names >/tmp/names.before
  files >/tmp/files.before
}
purge_and_compare() {
  names | grep ringload | xargs apt-get -qq -y purge >/dev/null
  apt-get -qq -y autoremove --purge >/dev/null
  names >/tmp/names.after
  files >/tmp/files.after
  diff /tmp/names.before /tmp/names.after
  diff /tmp/files.before /tmp/files.after
}

apt-get -qq update
mkdir -p /tmp/run
cd /tmp/run

# --- Python, which the bare root lacks; no other package of ours but the library
begin
install /try/libringload[0-9]*.deb /try/python3-ringload_*.deb
python3 /try/example.py /try/chunked.h5 >/dev/null
rm model.safetensors
ls /usr/lib/python3/dist-packages/ringload/__pycache__/_load.*.pyc >/dev/null
version=$(python3 --version)
purge_and_compare
echo "Python package: passed: $version"

# --- all packages; man-db and shells, for the manual and the completions
install man-db bash-completion zsh fish
begin
install /try/*.deb
if command -v cc gcc g++ c++ clang; then
  echo "a compiler was installed"
  exit 1
fi

ringload make model.safetensors --bytes 3M --no-progress
ringload ls model.safetensors >/dev/null
ringload load model.safetensors --no-progress >/dev/null
ringload ls /try/chunked.h5 >/dev/null
uring-bench --version

# --- the manual and the completions
for program in ringload uring-bench; do
  man -P cat $program >/tmp/page
  grep -q "^SYNOPSIS" /tmp/page || { echo "man $program has no synopsis"; exit 1; }
done
lacks() {
  echo "$1 does not complete 'ringload $2' to '$3': $4"
  exit 1
}
for words in "lo load" "load:--dt --dtype"; do
  begin=${words% *} expected=${words#* }
  begin=${begin//:/ }
  found=$(bash -c '. /usr/share/bash-completion/bash_completion
    _completion_loader ringload
    read -ra COMP_WORDS <<<"ringload $1"
    COMP_LINE="ringload $1" COMP_POINT=$((9 + ${#1})) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    $(complete -p ringload | sed "s/.*-F \([^ ]*\).*/\1/") ringload "${COMP_WORDS[-1]}" ringload
    printf "%s\n" "${COMPREPLY[@]}"' bash "$begin")
  grep -q -x -- "$expected *" <<<"$found" || lacks bash "$begin" "$expected" "$found"
  found=$(fish -c "complete -C 'ringload $begin'")
  grep -q -P -- "^$expected(\t|\$)" <<<"$found" || lacks fish "$begin" "$expected" "$found"
  # zsh completes in a terminal only. Ctrl-G shows the line.
  found=$(timeout 30 zsh -f -c 'zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "autoload -Uz compinit; compinit -D -u"
    zpty -w shell "show() { print -r -- \"[\$BUFFER]\" }; zle -N show; bindkey ^G show"
    zpty -w -n shell "ringload $1"$'"'\\t\\a'"'
    zpty -r shell text "*\\[ringload*\\]*"
    print -r -- "$text"' zsh "$begin")
  grep -q -- "\[ringload .*$expected" <<<"$found" || lacks zsh "$begin" "$expected" "$found"
done
echo "manual and completions of bash, zsh and fish: passed"

# --- again, and away
rm model.safetensors
install --reinstall /try/*.deb
purge_and_compare

# --- a program
install g++ pkg-config /try/*.deb
sed -n '/^```cpp$/,/^```$/p' /try/README.md | sed '1d; /^```$/,$d' >program.cpp
# shellcheck disable=SC2046
g++ -std=c++20 program.cpp $(pkg-config --cflags --libs ringload) -o program
ringload make model.safetensors --bytes 1M --no-progress
./program model.safetensors | grep -q "bytes at 0x"
echo "README.md's first program: passed"
