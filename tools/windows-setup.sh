#!/usr/bin/env bash
# Gets what is missing to build for Windows on this machine: a C cross compiler and a standard library for the target.
#
#     tools/windows-setup.sh [--wine SHIM | --arm]
#
# With --wine also Wine, and the library SHIM (bcryptprimitives.dll) that every Rust program for Windows imports and
# Wine 8 does not have. With --arm a compiler for aarch64 in place of the one for x86-64: clang, with the headers of
# mingw-w64. Safe to run again; `cargo xtask windows` calls it when something is missing. Packages come from
# wherever apt and rustup of this machine are configured to take them.
set -euo pipefail

target=x86_64-pc-windows-gnu
compiler=x86_64-w64-mingw32-gcc
here=$(cd "$(dirname "$0")" && pwd)
shim=
case "${1:-}" in
  --wine) shim=${2:?usage: windows-setup.sh [--wine SHIM | --arm]} ;;
  --arm)
    target=aarch64-pc-windows-gnullvm
    compiler=clang
    ;;
esac

say() { printf '  windows set-up: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null; }

install_packages() {
  local missing=()
  if [ "$compiler" = clang ]; then
    have clang && have llvm-ar || missing+=(clang llvm)
    [ -f /usr/share/mingw-w64/include/windows.h ] || missing+=(mingw-w64-common)
  else
    have "$compiler" || missing+=(mingw-w64)
  fi
  if [ -n "$shim" ]; then
    have wine || missing+=(wine wine64)
  fi
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! have apt-get || [ "$(id -u)" != 0 ]; then
    say "${missing[*]} must be installed by hand: this is not Debian, or not root"
    return 1
  fi
  say "installing ${missing[*]}"
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

has_standard_library() {
  [ -d "$rustlib/$target/lib" ] || [ -f "$rustlib/src/rust/library/std/Cargo.toml" ]
}

# The ordinary way. It needs rustup's own servers; where they are out of reach it must not hang.
standard_library_from_rustup() {
  have rustup && have timeout || return 1
  say "adding the target $target with rustup"
  timeout 120 rustup target add "$target" >&2
}

# Debian packages the library's source of many releases: take that of this compiler, to be built with -Zbuild-std.
standard_library_source_from_debian() {
  have apt-get && have dpkg || return 1
  local version mirror dir full suite
  version=$(rustc --version | awk '{print $2}')
  say "looking for the source of Rust $version's standard library in Debian's packages"
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m1 'debian/\?$') || return 1
  dir=$(mktemp -d)
  # shellcheck disable=SC2064  # the directory's name is wanted as it is now
  trap "rm -rf '$dir'" EXIT
  mkdir -p "$dir/lists/partial"
  for suite in trixie-backports sid; do
    printf 'deb [signed-by=%s] %s %s main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$suite"
  done >"$dir/sources.list"
  local apt=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$dir/lists")
  apt-get "${apt[@]}" update -qq >&2
  full=$(apt-cache "${apt[@]}" madison rust-src | awk '{print $3}' | grep -m1 "^$version+") || {
    say "Debian has no rust-src $version"
    return 1
  }
  (cd "$dir" && apt-get "${apt[@]}" download -qq "rust-src=$full" >&2 && dpkg -x rust-src_*.deb unpacked)
  mkdir -p "$rustlib/src/rust"
  cp -r "$dir/unpacked/usr/src/rustc-$version/library" "$rustlib/src/rust/"
}

install_packages
rustlib=$(rustc --print sysroot)/lib/rustlib
has_standard_library || standard_library_from_rustup || standard_library_source_from_debian
has_standard_library || { say "no standard library for $target can be had"; exit 1; }

if [ -n "$shim" ] && [ ! -f "$shim" ]; then
  mkdir -p "$(dirname "$shim")"
  "$compiler" -shared -O2 -s -o "$shim" "$here/bcryptprimitives.c" -ladvapi32
fi
