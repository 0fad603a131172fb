# Pipelines, background processes, signals, traps, job control, /proc.
## case: pipelines
seq 100 | grep 5 | wc -l; echo x | cat | cat | cat; seq 1000 | head -n 1; echo $?; false | true; echo $?
(exit 3) | (exit 4); echo $?; seq 5 | while read x; do echo $((x * x)); done
## case: pipe-big
head -c 20000000 /dev/zero | tr '\0' a | md5sum; seq 200000 | sort -n | tail -n 1
yes abcdefgh | head -c 5000000 | md5sum
## case: pipe-sigpipe
yes | head -n 1; (yes; echo "yes said $?" >&2) | head -n 1
sh -c 'trap "" PIPE; yes 2>/dev/null; echo $? >&2' | head -n 1
## case: background
sleep 2 & p=$!; kill -0 $p && echo alive; wait $p; echo $?; kill -0 $p 2>/dev/null; echo $?
(sleep 0.1; exit 5) & wait $!; echo $?; wait; echo $?
## case: background-order
for i in 3 1 2; do (sleep $((i - 1)).$((i * 2)); echo $i) & done; wait; echo done
## case: kill-signals
sleep 100 & kill $!; wait $! 2>/dev/null; echo $?; sleep 100 & kill -9 $!; wait $! 2>/dev/null; echo $?
sleep 100 & sleep 0.5; kill -INT $!; sleep 0.5; kill -TERM $! 2>/dev/null; wait $! 2>/dev/null
kill -l | head -n 3; kill 99999999 2>/dev/null; echo $?
## case: trap-basic
trap 'echo got usr1' USR1; kill -USR1 $$; echo after; trap 'echo bye' EXIT; trap '' TERM; kill $$
echo survived; trap - USR1
## case: trap-exit
sh -c 'trap "echo leaving" EXIT; exit 6'; echo $?; sh -c 'trap "echo int; exit 9" INT; kill -INT $$; sleep 1'
echo $?; sh -c 'trap "echo hup" HUP; kill -HUP $$; echo on'
## case: trap-wait
trap 'echo alarm' ALRM; (until grep -q '^State:.S' /proc/$$/status; do usleep 50000; done; kill -ALRM $$) &
sleep 3 & wait $!; [ $? -gt 128 ] && echo interrupted; wait; echo end
## case: trap-child
sh -c 'trap "" USR1; sh -c "kill -USR1 \$\$; echo ignored in child"'
sh -c 'trap "echo x" USR1; sh -c "kill -USR1 \$\$"; echo $?' 2>/dev/null
## case: stop-continue
sleep 2 & p=$!; kill -STOP $p; n=0
until grep -q '^State:.T' /proc/$p/status || [ $n = 100 ]; do usleep 50000; n=$((n + 1)); done
sed -n 's/^State:[^A-Z]*\([A-Z]\).*/\1/p' /proc/$p/status; kill -CONT $p; wait $p; echo $?
## case: job-control
set -m; sleep 2 & jobs | sed 's/[0-9]\{2,\}//'; fg %1 > /dev/null; echo $?; sleep 5 & kill %1; wait; jobs
## case: job-groups
set -m; sh -c 'sleep 5 | sleep 5' & sleep 1; kill -TERM -$! 2>/dev/null; wait $!
sh -c 'echo $(($$ == $(cut -d" " -f5 /proc/$$/stat)))' & wait
## case: process-group
sh -c 'set -- $(cat /proc/self/stat); echo $(($5 > 0)) $(($6 > 0))'
setsid sh -c 'set -- $(cat /proc/$$/stat); [ $1 = $6 ] && echo session leader'
## case: orphans
sh -c '(sleep 0.3; echo orphan ppid $(awk "{ print \$4 }" /proc/self/stat > /dev/null; echo ok)) &
  echo parent leaves'
sleep 2
## case: zombies
sh -c 'sleep 0.1 & exec sleep 2' & sleep 1; ps | grep -c '\[sleep\]' | awk '{ print ($1 <= 1) }'; wait
echo reaped
## case: exec-builtin
sh -c 'exec echo replaced; echo never'; (exec > f; echo to file); cat f; sh -c 'exec nosuch' 2>/dev/null
echo $?; sh -c 'exec 2>/dev/null; ls nothere; echo $?'
## case: nice-renice
nice -n 5 sh -c 'nice'; nice; nice -n 19 nice nice; sh -c 'renice -n 3 -p $$ > /dev/null; nice'
## case: ulimits
ulimit -n 20; ulimit -n; sh -c 'ulimit -n'
sh -c 'i=0; while [ $i -lt 30 ]; do eval "exec $i<>/dev/null" 2>/dev/null || break; i=$((i + 1)); done;
  echo $i' 2>/dev/null | head -n 1
(ulimit -f 1; head -c 5000 /dev/zero > f; echo $?) 2>/dev/null; stat -c %s f
## case: ulimit-cpu
sh -c 'ulimit -t 1; while :; do :; done'; echo $?
## case: ulimit-stack-segv
sh -c 'kill -SEGV $$'; echo $?; sh -c 'kill -ABRT $$'; echo $?; sh -c 'kill -BUS $$'; echo $?
## case: proc-self
cat /proc/self/comm; tr '\0' ' ' < /proc/self/cmdline; echo; ls /proc/self/fd | wc -l; readlink /proc/self/exe
readlink /proc/self/cwd | sed 's|.*/||' | wc -l; grep -c . /proc/self/maps | awk '{ print ($1 > 3) }'
awk '/^(Name|Threads|Uid|Gid)/' /proc/self/status
## case: proc-system
[ $(awk '/MemTotal/ { print $2 }' /proc/meminfo) -gt 1000 ] && echo mem; awk '{ print ($1 > 0) }' /proc/uptime
grep -c ^processor /proc/cpuinfo; grep -q tmpfs /proc/filesystems && echo fs; grep -c ^cpu /proc/stat
cut -d' ' -f1-3 /proc/loadavg | wc -w; cat /proc/sys/kernel/hostname; ls -d /proc/1
## case: ps-free-uptime
ps | awk 'NR == 1 { print $1 } $1 == 1 { print $4 != "" }'; free | awk 'NR == 2 { print ($2 > $3) }'
uptime | grep -c 'load average'; top -b -n 1 | awk 'NR == 1 { print $1 }'; pidof init | awk '{ print $NF }'
nproc
## case: pgrep-pkill
sleep 77 & n=0; until ps | grep -q '[s]leep 77' || [ $n = 100 ]; do usleep 50000; n=$((n + 1)); done
ps | grep -c '[s]leep 77'; killall sleep; wait $! 2>/dev/null; echo $?; ps | grep -c '[s]leep 77'
killall nothere 2>/dev/null; echo $?
## case: users
id; id -u nobody; whoami; su -s /bin/sh nobody -c 'id -u; id -g; kill -0 1 2>/dev/null; echo $?'
chpst -u 1000:1000 id -u 2>/dev/null; setuidgid nobody id -un
## case: uname-hostname
uname -s; hostname; uname -n; [ -n "$(uname -r)" ] && echo release; hostname other; hostname; hostname limen
domainname > /dev/null; echo $?
## case: sleep-precision
a=$(cut -d' ' -f1 /proc/uptime); sleep 0.5; b=$(cut -d' ' -f1 /proc/uptime)
echo "$a $b" | awk '{ d = $2 - $1; print (d >= 0.45 && d < 5) }'; time -p true 2>&1 | awk '{ print $1 }'
usleep 1000; echo $?
## case: vi-ex
printf 'one\ntwo\nthree\n' > f; printf ':%%s/o/0/g\n:2d\n:wq\n' | vi f > /dev/null 2>&1; cat f
## case: vi-keys
printf 'hello world\nsecond\n' > f; printf 'wcwvi\033jddOabove\033:wq\n' | vi f > /dev/null 2>&1; cat f
## case: vi-script
seq 5 > f; printf 'Gonew line\033ggdd:x\n' > keys; vi f < keys > /dev/null 2>&1; cat f
printf ':q!\n' | vi g > /dev/null 2>&1; ls
## case: ed
printf 'a\none\ntwo\n.\n1s/one/ONE/\n2i\nmid\n.\n,p\nw f\nq\n' | ed; cat f
## case: script-loop
cat > s <<'E'
#!/bin/sh
total=0
for n in $(seq 1 50); do
    if [ $((n % 3)) = 0 ]; then total=$((total + n)); fi
done
echo $total
count() { c=0; while read -r line; do c=$((c + ${#line})); done; echo $c; }
seq 1 100 | count
for w in the quick brown fox; do echo $w | rev; done | sort | tr '\n' ' '
echo
E
sh s
## case: mkfifo-coproc
mkfifo in out; (while read x; do echo "got $x"; done < in > out) & exec 3> in 4< out; echo a >&3; read r <&4
echo $r; echo b >&3; read r <&4; echo $r; exec 3>&-; wait; echo closed
## case: flock
(flock 9; echo first; : > held; sleep 0.5; echo first done) 9> lock & until [ -f held ]; do usleep 10000; done
(flock 9; echo second) 9> lock; wait; flock -n lock true; echo $?
## case: watch-inotify-none
(timeout 1 watch -t -n 1 true > /dev/null 2>&1); echo $?
## case: sh-stdin-script
printf 'echo one\nread x\nthis is data\necho "$x"\nexit 3\n' | sh; echo $?
## case: tee-sigpipe-append
seq 100000 | tee f | tail -n 1; wc -l < f; seq 3 | tee -a f > /dev/null; wc -l < f
## case: wait-many
for i in 1 2 3 4 5 6 7 8 9 10; do (exit $i) & done; s=0; for j in $(jobs -p); do wait $j; s=$((s + $?)); done
echo $s
## case: nohup-hup
sh -c 'nohup sh -c "kill -HUP \$\$; echo immune" 2>/dev/null'; cat nohup.out 2>/dev/null; echo end
## case: script-tty
tty; echo $?; stty 2>&1 | head -n 1; echo $?
## case: pipe-opened-again
printf 'kept\n' | { sleep 0.3; cat < /proc/self/fd/0; echo end; }
sleep 0.1 | { sleep 0.3; cat /proc/self/fd/0; echo gone; }
