# Files, directories, links, permissions, searches.
## case: mkdir-rmdir
mkdir a; mkdir -p b/c/d; ls -R | sort; rmdir a; rmdir b; echo $?; rmdir -p b/c/d; ls
## case: cp-mv-rm
echo x > a; cp a b; mv b c; ls; mkdir d; cp a c d; ls d; cp -r d e; rm -r d; ls; rm nothere; echo $?
rm -f nothere; echo $?
## case: links
echo x > a; ln a b; ln -s a s; ls -l | awk 'NR > 1 { print $1, $2, $9, $10, $11 }'; readlink s; rm a; cat b
cat s; echo $?; ln -s loop loop; cat loop; readlink -f s
## case: symlink-dirs
mkdir -p real/sub; ln -s real link; echo hi > link/f; cat real/f; cd link; pwd; pwd -P | sed 's|.*/||'; cd ..
ls -d link/; rm link; ls
## case: chmod-modes
touch f; chmod 640 f; stat -c '%a %A %F' f; chmod u+x,g-r,o=w f; stat -c %a f; chmod -R a+rX .; stat -c %a f
umask 027; touch g; mkdir d; stat -c '%a %n' g d; chmod 4755 f; stat -c '%a %A' f; chmod +t d; stat -c '%A' d
## case: chown
touch f; chown 1000:1001 f; stat -c '%u %g' f; chown -R 0:0 .; stat -c '%u %g' f; chgrp 5 f; stat -c %g f
## case: touch-times
touch -d '2020-01-02 03:04:05' f; stat -c %Y f; touch -r f g; [ f -nt g ]; echo $?; touch g
[ g -nt f ] && echo newer; cp -p f h; stat -c %Y h
## case: stat-sizes
printf 12345 > f; stat -c '%s %h %F' f; : > e; stat -c '%s %F' e; stat -c %F . /dev/null /proc/self
[ -s f ] && [ ! -s e ] && echo sizes
## case: sparse-truncate
truncate -s 1M f; stat -c %s f; [ $(stat -c %b f) -lt 100 ] && echo sparse
echo end | dd of=f bs=1 seek=2000000 conv=notrunc 2>/dev/null; stat -c %s f; tail -c 4 f; truncate -s 5 f
od -c f
## case: dd
seq 1000 > f; dd if=f of=g bs=100 count=2 skip=1 2>/dev/null; md5sum < g
dd if=/dev/zero bs=1k count=3 2>&1 >/dev/null | head -n 2; dd if=f bs=7 conv=sync 2>/dev/null | wc -c
## case: find-names
mkdir -p a/b c; touch a/x.txt a/b/y.txt c/z.log; find . | sort; find . -name '*.txt' | sort
find . -type d | sort; find . -maxdepth 1 | sort; find a -path '*b*' | sort
find . -iname '*.TXT' -o -name z.log | sort
## case: find-exec
mkdir d; for i in 1 2 3; do echo $i > d/f$i; done; find d -type f -exec cat {} \; | sort
find d -type f -exec echo {} + | wc -w; find d -name f2 -delete; ls d; find d -size -2k -type f | sort
find d -newer d/f1 -type f | sort | head -n 0; find . -empty
## case: find-perm
touch a b; chmod 755 a; chmod 600 b; find . -type f -perm 600; find . -type f -perm -100
find . -type f ! -perm -100; find . -user 0 -type f | sort; find . -links 1 -type f | sort
## case: ls-formats
touch b a c; mkdir d; ls; ls -1 -r; ls -a; ls -p; ls -F; ls -d */
ls -l | awk 'NR > 1 { print $1, $3, $4, $5, $9 }'; ls nothere; echo $?
## case: ls-sort
printf 123 > a; printf 1 > b; printf 12345 > c; ls -S; ls -Sr; touch -d '2001-01-01' a
touch -d '2002-01-01' c; touch -d '2003-01-01' b; ls -t; ls -tr
## case: du-df
mkdir d; head -c 10000 /dev/zero > d/f; du -s d |
  awk -v page=$(stat -f -c %S .) '{ print ($1 >= 8 && $1 * 1024 <= 10000 + 3 * page) }'; df / > /dev/null
echo $?; df /nothere 2>/dev/null; echo $?
## case: tmp-mktemp
f=$(mktemp); [ -f "$f" ] && echo file; d=$(mktemp -d); [ -d "$d" ] && echo dir; stat -c %a "$f" "$d"
rm -r "$f" "$d"; TMPDIR=. mktemp -u x.XXXXXX | sed 's/x\.......$/x/'
## case: rename-over
echo a > a; echo b > b; mv a b; cat b; mkdir d e; touch d/f; mv d e; ls e; mkdir d; mv e/d . 2>&1; echo $?
mv nothere x 2>&1; mkdir full; touch full/x; mkdir full2; mv full2 full; ls full
## case: open-unlinked
exec 5> f; rm f; echo hidden >&5; ls; exec 5>&-; echo data > g; exec 6< g; rm g; cat <&6; exec 6<&-
## case: append-mode
echo one > f; echo two >> f; (echo three; echo four) >> f; cat f; : > f; wc -c f
## case: noclobber
echo a > f; set -C; echo b > f; echo $?; echo c >| f; cat f
## case: many-files
mkdir d; i=0; while [ $i -lt 500 ]; do : > d/file$i; i=$((i + 1)); done; ls d | wc -l; ls d | md5sum
rm d/file1*; ls d | wc -l; rm -r d; ls
## case: deep-paths
p=; i=0; while [ $i -lt 60 ]; do p=${p}directory$i/; i=$((i + 1)); done; mkdir -p $p; echo deep > ${p}f
cat ${p}f; echo ${#p}; find . -name f | wc -c; rm -r directory0; ls
## case: long-name
n=$(head -c 255 /dev/zero | tr '\0' n); touch $n; ls | wc -c; touch ${n}x 2>&1 | sed 's/n\{50,\}x/LONG/'
ls | wc -l
## case: odd-names
touch ' space' '-dash' 'new
line' '*' 'q"uote'; ls | od -c | head -n 5; rm -- -dash; rm '*'; ls | wc -l
for f in *; do [ -e "$f" ] && echo ok; done
## case: permissions-user
echo secret > f; chmod 600 f; mkdir d; chmod 700 d; touch d/x; chmod 755 .
su -s /bin/sh nobody -c 'cat f; echo $?; ls d; echo $?; echo x > new; echo $?; id -u;
  [ -r f ] || echo unreadable'
## case: sticky
chmod 755 .; mkdir t; chmod 1777 t; su -s /bin/sh nobody -c 'echo mine > t/mine'; touch t/roots
su -s /bin/sh nobody -c 'rm -f t/roots; echo $?; rm t/mine; echo $?'; ls t
## case: setgid-dir
mkdir d; chown 0:5 d; chmod 2775 d; touch d/f; mkdir d/s; stat -c '%g %a' d/f d/s
## case: fifo
mkfifo p; stat -c %F p; (echo through > p) & cat p; wait; (cat p > out) & echo a > p; wait; cat out
[ -p p ] && echo pipe
## case: device-nodes
mknod z c 1 5; head -c 4 z | od -c; stat -c '%F %t %T' z; echo x > /dev/null; head -c 3 /dev/zero | od -An -c
echo full > /dev/full; echo $?; head -c 8 /dev/urandom | wc -c; ls -l /dev/null | cut -c 1-10
## case: fd-tricks
exec 3> f; echo one >&3; exec 3>&-; exec 4< f; read x <&4; echo $x; exec 4<&-
{ echo out; echo err >&2; } > o 2> e; cat o e; { echo err >&2; } 2>&1 | cat; echo x 2>&1 1>/dev/null
exec 7<> f; echo rw >&7; cat f
## case: large-file
dd if=/dev/zero of=f bs=1M count=24 2>/dev/null; stat -c %s f; md5sum < f
dd if=/dev/zero of=f bs=1 count=1 seek=5000000000 2>/dev/null; stat -c %s f; rm f
## case: cwd-removed
mkdir d; cd d; rmdir ../d; pwd -P 2>&1 | tail -n 1 | cut -c 1-3; ls; touch x 2>&1; cd ..; ls
## case: hardlink-count
touch a; for i in 1 2 3 4 5; do ln a l$i; done; stat -c %h a; rm l1 l2; stat -c %h a; ln . dirlink 2>&1
mkdir d; stat -c %h d; mkdir d/x; stat -c %h d
## case: access-checks
touch f; chmod 000 f; [ -r f ] && echo root-reads; chmod 755 .
su -s /bin/sh nobody -c '[ -r f ] || echo no; [ -w . ] || echo no-write; [ -x f ] || echo no-exec'
echo '#!/bin/sh' > s; ./s 2>&1; echo $?; chmod +x s; ./s; echo $?
## case: install-realpath
echo x > f; install -m 750 f g; stat -c %a g; install -d -m 711 i/j; stat -c %a i/j; mkdir -p a/b
realpath a/../a/b | sed 's|.*/a/b|a/b|'; basename /x/y.txt .txt; dirname /x/y/z
## case: mount-tmpfs
mkdir m; mount -t tmpfs none m; touch m/x; ls m; mountpoint -q m; echo $?; umount m; ls m
mount -t tmpfs -o size=64k none m; head -c 200000 /dev/zero > m/f 2>/dev/null; echo $?
[ $(stat -c %s m/f) -le 65536 ] && echo limited; umount m; umount m 2>/dev/null; echo $?
## case: mount-bind
mkdir a b; echo x > a/f; mount --bind a b; cat b/f; echo y > b/g; umount b; ls a b
## case: mount-readonly
mkdir m; mount -t tmpfs none m; echo x > m/f; mount -o remount,ro m; echo y > m/f 2>&1; touch m/g 2>&1
cat m/f; umount m
## case: chroot
mkdir -p r/bin; cp /bin/busybox r/bin; ln -s busybox r/bin/sh; echo inside > r/f
chroot r /bin/sh -c 'pwd; /bin/busybox ls /; /bin/busybox cat /f; cd ..; pwd'
