# Debian's strace. Numbers that differ from run to run become words.
## case: strace-files
strace -o t -e trace=openat,write,read,lseek,close,unlink -P /tmp/subject -y /subject files
sed 's/openat(AT_FDCWD<[^>]*>/openat(AT_FDCWD/; s/= [0-9]*</= N</; s/([0-9]*</(N</' t
## case: strace-processes
strace -f -o t -e trace=clone,clone3,fork,vfork,wait4,exit_group -e signal=none /subject forks
sed -n 's/^[0-9]* *//; /exit_group/p' t; grep -c 'resumed\|wait4(' t | tr -d 0-9; grep -c 'clone\|fork' t
## case: strace-signals
(while ! grep -q ready out 2>/dev/null; do sleep 0.1; done; pkill -USR1 -f '^/subject waits') &
strace -o t -e trace=none -e signal=USR1 /subject waits > out; cat out; sed 's/si_pid=[0-9]*/si_pid=P/' t
## case: strace-inject-error
strace -o t -e inject=openat:error=ENOSPC -P /tmp/subject /subject files; echo $?; grep -o '= -1 .*' t
## case: strace-inject-value
strace -o t -e trace=lseek -e inject=write:retval=3:when=2 -P /tmp/subject /subject files; echo $?; cat t
## case: strace-inject-signal
bash -c 'strace -o t -e inject=lseek:signal=SIGSEGV /subject files; exit $?' 2>/dev/null; echo $?
tail -n 1 t
## case: strace-inject-delay
strace -o t -e inject=lseek:delay_enter=200000 -r /subject files; echo $?
awk '/lseek/ { getline; print ($1 >= 0.15 ? "late" : "early " $2) }' t
## case: strace-seccomp
strace -f --seccomp-bpf -o t -e trace=unlink,unlinkat /subject files; sed 's/^[0-9]* *//' t
## case: strace-stack
strace -k -o t -e trace=write /subject deep; echo $?
grep -A 12 '^write' t | grep -o '(deep+\|(main+\|^write(1, "deep' | sort | uniq -c
## case: strace-attach
/subject waits > out & pid=$!
while ! grep -q ready out; do sleep 0.1; done
strace -o t -e trace=pause,ppoll,rt_sigreturn,write -e signal=USR1 -p $pid 2>e & s=$!
while ! grep -q attached e; do sleep 0.1; done
kill -USR1 $pid; wait $pid; echo $?; wait $s; echo $?; cat out
sed 's/si_pid=[0-9]*/P/' t | grep -v resumed; sed 's/[0-9][0-9]*/N/' e
## case: strace-detach
/subject waits > out & pid=$!
while ! grep -q ready out; do sleep 0.1; done
strace -o t -e trace=all -p $pid 2>e & s=$!
while ! grep -q attached e; do sleep 0.1; done
grep TracerPid /proc/$pid/status | grep -c "$s"; kill -INT $s; wait $s; echo $?
grep TracerPid /proc/$pid/status; kill -USR1 $pid; wait $pid; echo $?; cat out
## case: strace-summary
strace -f -c -o t -e trace=exit_group,unlink,unlinkat,lseek /subject files; awk '{ print $4, $NF }' t | sort
## case: strace-exec
strace -f -e trace=execve -o t /subject exec; echo $?
sed 's/^[0-9]* *//; s/0x[0-9a-f]*/V/; s/[0-9]* vars/N vars/' t
## case: strace-decodes
strace -v -o t -e trace=fstat,newfstatat,statx,uname sh -c 'uname -s; stat -c %s /subject >/dev/null'
grep -c 'sysname="Linux"' t; grep -q 'st_mode=S_IFREG|0\|stx_mode=S_IFREG|0' t; echo $?
