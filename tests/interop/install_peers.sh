#!/bin/sh
# Install the peers of tests/interop that pip does not bring: RabbitMQ as the system
# has it, RabbitMQ 4 out of Debian 13, Node.js and rhea, Java, ActiveMQ Artemis and
# Classic, Qpid Broker-J, Chronicle Queue, Qpid JMS and HDFS (through Maven), Go and go-amqp,
# Chromium, its driver and axe-core for the pages, Prometheus for the metrics, libzmq and NATS for
# the bench.
# Idempotent; does nothing where all are there.
#
# Needs root on a Debian-like system to install packages; elsewhere it says what
# is missing and fails, so that nobody takes a skipped peer for a proven one.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/quiver-fast
artemis_version=2.40.0
artemis_home=${ARTEMIS_HOME:-$cache/apache-artemis-$artemis_version}
classic_version=5.17.6
classic_home=${ACTIVEMQ_HOME:-$cache/apache-activemq-$classic_version}
broker_j_version=9.2.0
broker_j_home=${QPID_BROKER_J_HOME:-$cache/qpid-broker-j-$broker_j_version}
chronicle_home=${CHRONICLE_HOME:-$cache/chronicle-queue}
go_amqp_home=${GO_AMQP_HOME:-$cache/go-amqp}
jms_home=${QPID_JMS_HOME:-$cache/qpid-jms}
hdfs_home=${HDFS_HOME:-$cache/hdfs}
rabbitmq4_root=${RABBITMQ_ROOT:-$cache/rabbitmq-4}
rabbitmq4_server=$rabbitmq4_root/usr/lib/rabbitmq/bin/rabbitmq-server
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
policy=/usr/sbin/policy-rc.d
policy_is_ours=0
scratch=

missing_packages() {
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || printf 'rabbitmq-server '
    command -v node >/dev/null 2>&1 || printf 'nodejs '
    command -v npm >/dev/null 2>&1 || printf 'npm '
    command -v javac >/dev/null 2>&1 || printf 'default-jdk-headless '
    command -v mvn >/dev/null 2>&1 || printf 'maven '
    command -v go >/dev/null 2>&1 || printf 'golang-go '
    command -v chromium >/dev/null 2>&1 || printf 'chromium '
    command -v chromedriver >/dev/null 2>&1 || printf 'chromium-driver '
    command -v openssl >/dev/null 2>&1 || printf 'openssl '
    command -v prometheus >/dev/null 2>&1 || printf 'prometheus '
    # A test compares the server's system calls with those that its unit allows.
    command -v strace >/dev/null 2>&1 || printf 'strace '
    # Shells whose completion is tested.
    command -v zsh >/dev/null 2>&1 || printf 'zsh '
    command -v fish >/dev/null 2>&1 || printf 'fish '
    # What the bench compares with; Debian has servers where only root looks.
    [ -e /usr/include/zmq.h ] || printf 'libzmq3-dev '
    [ -x /usr/sbin/nats-server ] || command -v nats-server >/dev/null 2>&1 || printf 'nats-server '
    if ! [ -x "$rabbitmq4_server" ]; then
        command -v debootstrap >/dev/null 2>&1 || printf 'debootstrap '
        [ -e "$debian_keys" ] || printf 'debian-archive-keyring '
    fi
}

fail() {
    echo "install_peers.sh: $*" >&2
    exit 1
}

# Nothing is left of an installation that did not end, nor of what it needed.
clean_up() {
    [ "$policy_is_ours" = 0 ] || rm -f "$policy"
    [ -z "$scratch" ] || rm -rf "$scratch" "$scratch.log"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The tests start a broker of their own: the packaged service must not take
# the default ports first. invoke-rc.d obeys policy-rc.d; 101 forbids a start.
forbid_start() {
    printf '#!/bin/sh\nexit 101\n' >"$1"
    chmod 755 "$1"
}

forbid_service_start() {
    [ -e "$policy" ] && return
    forbid_start "$policy"
    policy_is_ours=1
}

install_packages() {
    if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
        fail "missing: $*; install them as root"
    fi
    forbid_service_start
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=600 --no-install-recommends "$@"
}

# Another checkout may be installing, too: one after the other.
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9

packages=$(missing_packages)
# shellcheck disable=SC2086  # a list of package names
[ -z "$packages" ] || install_packages $packages

cd "$here"
if ! cmp -s package-lock.json node_modules/.installed-lock; then
    npm ci --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.installed-lock
fi

# What is built in $scratch is there only when it is whole.
begin_installation() {
    mkdir -p "$(dirname -- "$1")"
    scratch=$(mktemp -d "$(dirname -- "$1")/.installing.XXXXXX")
    chmod 755 "$scratch"
}

# from_maven HOME PROGRAM GROUP:NAME VERSION FOLDER: the archive's FOLDER becomes HOME.
from_maven() {
    [ -e "$1/$2" ] && return
    begin_installation "$1"
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        "-Dartifact=$3:$4:tar.gz:bin" "-DoutputDirectory=$scratch" -Dmdep.useBaseVersion=true
    tar -xzf "$scratch"/*.tar.gz -C "$scratch"
    rm -rf "$1"
    mv "$scratch/$5" "$1"
    rm -rf "$scratch"
    scratch=
}

from_maven "$artemis_home" bin/artemis org.apache.activemq:apache-artemis \
    $artemis_version apache-artemis-$artemis_version
from_maven "$classic_home" bin/activemq.jar org.apache.activemq:apache-activemq \
    $classic_version apache-activemq-$classic_version
from_maven "$broker_j_home" bin/qpid-server org.apache.qpid:apache-qpid-broker-j \
    $broker_j_version qpid-broker/$broker_j_version

# RabbitMQ 4 in a Debian 13 of its own, of which the launcher takes /usr. What is mounted for
# the installation goes with the namespace that it is mounted in.
install_rabbitmq4() {
    [ -x "$rabbitmq4_server" ] && return
    [ "$(id -u)" = 0 ] || fail "missing: RabbitMQ 4 in $rabbitmq4_root; install it as root"
    begin_installation "$rabbitmq4_root"
    fill_rabbitmq4 >"$scratch.log" 2>&1 || {
        cat "$scratch.log" >&2
        fail "RabbitMQ 4 cannot be installed in $rabbitmq4_root"
    }
    rm -rf "$rabbitmq4_root" "$scratch.log"
    mv "$scratch" "$rabbitmq4_root"
    scratch=
}

# shellcheck disable=SC2016  # they are the inner shell's
fill_rabbitmq4() {
    debootstrap --variant=minbase trixie "$scratch" &&
        forbid_start "$scratch$policy" &&
        DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 unshare --mount sh -euc '
            for one in proc dev sys; do mount --rbind "/$one" "$1/$one"; done
            chroot "$1" apt-get install -y -q --no-install-recommends rabbitmq-server
            chroot "$1" apt-get clean' sh "$scratch"
}

install_rabbitmq4

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

# The suite over JMS, compiled against the client that its pom names.
install_jms() {
    if [ -e "$jms_home/sources" ] && cat jms/* | cmp -s - "$jms_home/sources"; then
        return
    fi
    rm -rf "$jms_home"
    mkdir -p "$jms_home"
    mvn -q -B -f jms/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime "-DoutputDirectory=$jms_home/lib"
    javac -d "$jms_home/classes" -cp "$jms_home/lib/*" jms/*.java
    cat jms/* >"$jms_home/sources"
}

install_jms

# The suite of go-amqp, which go.sum pins.
install_go_amqp() {
    if [ -e "$go_amqp_home/sources" ] && cat go/* | cmp -s - "$go_amqp_home/sources"; then
        return
    fi
    rm -rf "$go_amqp_home"
    mkdir -p "$go_amqp_home"
    (cd go && go build -o "$go_amqp_home/suite" .)
    cat go/* >"$go_amqp_home/sources"
}

install_go_amqp

# A namenode and a datanode; the rest of Hadoop is among PySpark's jars.
install_hdfs() {
    cmp -s hdfs/pom.xml "$hdfs_home/pom.xml" && return
    rm -rf "$hdfs_home"
    mkdir -p "$hdfs_home"
    mvn -q -B -f hdfs/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime "-DoutputDirectory=$hdfs_home"
    cp hdfs/pom.xml "$hdfs_home"
}

install_hdfs
