#!/bin/sh
# Makes sure that there is a Java that Spark 4.2 can run on: 17 or later, with the module
# jdk.incubator.vector (the JREs that come as Python wheels lack it). Does nothing where there is.
set -eu

java_fits() {
    java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    command -v "$java" >/dev/null 2>&1 || return 1
    major=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ] || return 1
    "$java" --list-modules 2>/dev/null | grep -q '^jdk\.incubator\.vector'
}

if java_fits; then
    exit 0
fi

need="Java 17 or later with the module jdk.incubator.vector (Debian: openjdk-17-jre-headless)"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup-java: there is no $need, and no apt-get to install it with" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup-java: there is no $need; run as root: apt-get install openjdk-17-jre-headless" >&2
        exit 1
    fi
    as_root="sudo"
fi

echo "setup-java: installing openjdk-17-jre-headless" >&2
export DEBIAN_FRONTEND=noninteractive
for attempt in 1 2 3; do
    if $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends \
        openjdk-17-jre-headless ca-certificates >/dev/null; then
        break
    fi
    echo "setup-java: apt-get failed (attempt $attempt of 3)" >&2
    sleep $((attempt * 5))
done

if ! java_fits; then
    echo "setup-java: the Java on the path is still not $need; check JAVA_HOME" >&2
    exit 1
fi
