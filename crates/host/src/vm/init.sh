#!/bin/sh
# First process of the guest: mounts what programs expect, runs the order, ends the machine.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
echo @READY@ > /dev/ttyS1
cd @FOLDER@ || exit
@WORDS@ > /dev/ttyS1 2> /dev/ttyS2
echo "@ENDED@ $?" > /dev/ttyS1
echo b > /proc/sysrq-trigger
