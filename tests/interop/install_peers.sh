#!/bin/sh
# Install the peers of tests/interop that pip does not bring: RabbitMQ with its
# AMQP 1.0 plugin, Node.js and rhea, Java, ActiveMQ Artemis and Chronicle Queue
# (through Maven), Chromium for the reports.
# Idempotent; does nothing where all are there.
#
# Needs root on a Debian-like system to install packages; elsewhere it says what
# is missing and fails, so that nobody takes a skipped peer for a proven one.
set -eu

artemis_version=2.40.0
artemis_home=${ARTEMIS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/quiver-fast/apache-artemis-$artemis_version}
chronicle_home=${CHRONICLE_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/quiver-fast/chronicle-queue}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
policy=/usr/sbin/policy-rc.d
policy_is_ours=0

missing_packages() {
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || printf 'rabbitmq-server '
    command -v node >/dev/null 2>&1 || printf 'nodejs '
    command -v npm >/dev/null 2>&1 || printf 'npm '
    command -v javac >/dev/null 2>&1 || printf 'default-jdk-headless '
    command -v mvn >/dev/null 2>&1 || printf 'maven '
    command -v chromium >/dev/null 2>&1 || printf 'chromium '
    command -v openssl >/dev/null 2>&1 || printf 'openssl '
}

# The tests start a broker of their own: the packaged service must not take
# the default ports first. invoke-rc.d obeys policy-rc.d; 101 forbids a start.
forbid_service_start() {
    [ -e "$policy" ] && return
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    policy_is_ours=1
}

restore_policy() {
    [ "$policy_is_ours" = 0 ] || rm -f "$policy"
}

install_packages() {
    if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
        echo "install_peers.sh: missing: $*; install them as root" >&2
        exit 1
    fi
    trap restore_policy EXIT
    forbid_service_start
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

packages=$(missing_packages)
# shellcheck disable=SC2086 -- a list of package names, split on purpose
[ -z "$packages" ] || install_packages $packages

cd "$here"
if ! cmp -s package-lock.json node_modules/.installed-lock; then
    npm ci --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.installed-lock
fi

install_artemis() {
    [ -x "$artemis_home/bin/artemis" ] && return
    parent=$(dirname -- "$artemis_home")
    mkdir -p "$parent"
    scratch=$(mktemp -d "$parent/.artemis.XXXXXX")
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        "-Dartifact=org.apache.activemq:apache-artemis:$artemis_version:tar.gz:bin" \
        "-DoutputDirectory=$scratch" -Dmdep.useBaseVersion=true
    tar -xzf "$scratch"/apache-artemis-*.tar.gz -C "$scratch"
    rm -rf "$artemis_home"
    mv "$scratch/apache-artemis-$artemis_version" "$artemis_home"
    rm -rf "$scratch"
}

install_artemis

# The peer of the queue files' tests: compiled against the jars that its pom names.
install_chronicle() {
    cmp -s java/pom.xml "$chronicle_home/pom.xml" &&
        cmp -s java/QueuePeer.java "$chronicle_home/QueuePeer.java" && return
    rm -rf "$chronicle_home"
    mkdir -p "$chronicle_home"
    mvn -q -B -f java/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime "-DoutputDirectory=$chronicle_home/lib"
    javac -d "$chronicle_home/classes" -cp "$chronicle_home/lib/*" java/QueuePeer.java
    cp java/pom.xml java/QueuePeer.java "$chronicle_home"
}

install_chronicle
