#!/bin/busybox sh
# The guest's first process: this machine's root, read only, the repository, and the command in them.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done < /modules/order
over=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $over,ro,cache=loose root /root || poweroff -f
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /root/dev/shm
mount -t devpts devpts /root/dev/pts
ln -sf /proc/self/fd /root/dev/fd
for folder in tmp run var/tmp mnt; do mount -t tmpfs tmpfs "/root/$folder"; done
chmod 1777 /root/tmp
mount -t tracefs tracefs /root/sys/kernel/tracing
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
mkdir -p /root/mnt/shared "/root@REPOSITORY@"
mount -t 9p -o $over,cache=mmap repository "/root@REPOSITORY@"
mount -t 9p -o $over,cache=none shared /root/mnt/shared
ip link set lo up
hostname guest
exec chroot /root /bin/bash -c '
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8
cd "@REPOSITORY@"
setsid bash /mnt/shared/command > /mnt/shared/output 2>&1 < /dev/null
echo $? > /mnt/shared/code
sync
echo o > /proc/sysrq-trigger
sleep 60'
