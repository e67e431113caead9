#!/usr/bin/env bash
# Run a command in a copy of this checkout, in a bare Debian 13 that has python3 and make.
#
# Usage: [DEBIAN_SUITE=sid] [DEBIAN_ARCH=arm64] .ci/bare_debian.sh COMMAND, as root. The system is
# made once with debootstrap, kept in ~/.cache/quiver-fast, and copied for each use. Its package
# and pip settings, its certificates and its proxies are this machine's. Another suite of Debian
# brings another Python. Programs of arm64 run under QEMU on another machine, ten times slower,
# but the compiler is one of this machine, at full speed.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
command=${1:?usage: bare_debian.sh COMMAND}

suite=${DEBIAN_SUITE:-trixie}
# Where this machine's apt fetches Debian from; otherwise debootstrap's own choice.
# shellcheck disable=SC2016  # apt-get's own names
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Created-By: Packages' | head -1)
own=$(dpkg --print-architecture)
arch=${DEBIAN_ARCH:-$own}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/quiver-fast
kept=$cache/debian-$suite
[ "$arch" = "$own" ] || kept=$kept-$arch

fail() {
    echo "bare_debian.sh: $*" >&2
    exit 1
}

# Copy files of this machine that are there to the same places below $1.
carry() {
    local root=$1 path
    shift
    for path in "$@"; do
        [ -e "$path" ] || continue
        mkdir -p "$root$(dirname "$path")"
        cp -aL --no-preserve=ownership "$path" "$root$(dirname "$path")"
    done
}

# How this machine reaches the network: names, certificates, and settings of apt and pip.
carry_settings() {
    local root=$1
    carry "$root" /etc/resolv.conf /etc/hosts /etc/pip.conf "$HOME/.pip/pip.conf" "$HOME/.config/pip" \
        /usr/local/share/ca-certificates /etc/ssl/certs/ca-certificates.crt \
        "${PIP_CONFIG_FILE:-}" "${PIP_FIND_LINKS:-}" "${PIP_CERT:-}" "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}"
    # Not the machine's choice of packages or hooks: only where and how apt fetches.
    mkdir -p "$root/etc/apt/apt.conf.d"
    apt-config dump --no-empty | grep -E '^Acquire::(http|https|ftp|Check|Retries)' \
        >"$root/etc/apt/apt.conf.d/90network" || true
}

install_package() {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y -o DPkg::Lock::Timeout=600 "$1"
}

# Let the kernel start programs of arm64 with Debian's emulator. It keeps the emulator open (flag
# F), so the system needs no copy.
emulate_arm64() {
    local formats=/proc/sys/fs/binfmt_misc name=qemu-aarch64
    [ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats ||
        fail "DEBIAN_ARCH=arm64 needs the kernel's binfmt_misc"
    [ -e $formats/$name ] || install_package qemu-user-static
    # Without systemd the package registers nothing.
    [ -e $formats/$name ] || cat /usr/lib/binfmt.d/$name.conf >$formats/register ||
        fail "DEBIAN_ARCH=arm64: the kernel does not take the rule of $name"
    grep -q '^flags: .*F' $formats/$name || fail "DEBIAN_ARCH=arm64: $name is without the flag F"
}

# Put the cross compiler of x86-64 over the compiler of the arm64 system: it makes the same code
# without emulation. Its libraries come with the compiler for x86-64.
replace_compiler() {
    # shellcheck disable=SC2016  # they are the inner shell's
    inside "$1" '
        apt-get install -q -y --no-install-recommends gcc libc6-dev
        dpkg --add-architecture amd64
        apt-get update -q
        version=$(readlink /usr/bin/gcc)
        version=${version#gcc-}
        apt-get install -q -y --no-install-recommends \
            "cpp-$version-x86-64-linux-gnu:amd64" binutils-x86-64-linux-gnu:amd64
        cd "$(mktemp -d)"
        apt-get download -q \
            "gcc-$version-aarch64-linux-gnu:amd64" "cpp-$version-aarch64-linux-gnu:amd64" \
            "libgcc-$version-dev-arm64-cross" libgcc-s1-arm64-cross binutils-aarch64-linux-gnu:amd64
        for package in *.deb; do
            dpkg-deb --fsys-tarfile "$package" | tar -x -C / --keep-directory-symlink
        done'
}

make_system() {
    command -v debootstrap >/dev/null || install_package debootstrap
    local scratch
    mkdir -p "$cache"
    scratch=$(mktemp -d "$cache/.debian.XXXXXX")
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    debootstrap --variant=minbase --arch="$arch" "$suite" "$scratch" ${mirror:+"$mirror"} >"$cache/debootstrap.log" ||
        { tail -20 "$cache/debootstrap.log" >&2; fail "debootstrap failed"; }
    chmod 755 "$scratch"
    carry_settings "$scratch"
    inside "$scratch" 'apt-get update -q && apt-get install -q -y --no-install-recommends python3 make'
    [ "$arch" = "$own" ] || replace_compiler "$scratch"
    mv "$scratch" "$kept"
    trap - EXIT
}

# Run $2 in the root $1. The mounts are in a name space of their own, and go with it;
# processes that are left over go too.
inside() {
    local root=$1 name variables=()
    while IFS='=' read -r name _; do
        variables+=("$name=${!name}")
    done < <(env | grep -E '^(PIP_[A-Z_]+|[a-z]+_proxy|[A-Z]+_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|QUIVER_FAST_[A-Z_]+)=')
    # The processor of many servers; the emulator is slow at the signed pointers of newer ones.
    [ "$arch" = "$own" ] || variables+=(QEMU_CPU=neoverse-n1)
    # shellcheck disable=SC2016  # they are the inner shell's
    unshare --mount --propagation private --pid --fork --kill-child sh -euc '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" "$@"' sh "$root" \
        env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${variables[@]}" \
        sh -euc "$2" </dev/null
}

[ "$(id -u)" = 0 ] || fail "needs root: it makes a system of its own with debootstrap and chroot"
case $arch in
    "$own") ;;
    arm64) [ "$own" = amd64 ] || fail "DEBIAN_ARCH=arm64 needs arm64 or x86-64, not $own"
        emulate_arm64 ;;
    *) fail "DEBIAN_ARCH=$arch: expected arm64 or $own" ;;
esac
[ -d "$kept" ] || make_system

root=$(mktemp -d "${TMPDIR:-/tmp}/quiver-fast-$suite.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
cp -a "$kept/." "$root"
carry_settings "$root"
mkdir "$root/checkout"
# What git knows, with what is changed and not committed; nothing that was built.
(cd "$checkout" && git ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from - --ignore-failed-read) | tar --extract --directory "$root/checkout"
inside "$root" "cd /checkout; $command"
