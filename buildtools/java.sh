#!/bin/sh
# See to the Java that Spark needs, 17 or newer: that of JAVA_HOME, else of PATH.
#
# Where there is none: root on a Debian-like system installs a headless one; any other
# user is told, and everything but Spark works without.
set -eu

oldest=17

is_there() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge "$oldest" ]
}

is_there && exit 0
if [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "quiver-fast: installing Java for Spark: default-jre-headless"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null &&
        apt-get install -q -y -o DPkg::Lock::Timeout=600 --no-install-recommends default-jre-headless </dev/null || true
fi
is_there || echo "quiver-fast: no Java $oldest or newer: Spark will not work; all else does" >&2
