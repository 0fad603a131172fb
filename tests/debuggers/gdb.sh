# Debian's gdb and gdbserver, without what differs from run to run.
## case: gdb-breakpoint
. /common
g --args /subject loop <<C | plain | grep -v '^warning\|libthread_db\|debuginfod\|^Downloading'
break add
run
bt
info args
finish
print pair
delete
continue
C
## case: gdb-step
. /common
g --args /subject loop <<C | grep -v 'at 0x\|= 0x\|saved\|warning\|thread_db\|Using host' | plain
break loop
run
next
step
info frame
stepi
nexti
up
info locals
C
## case: gdb-watch
. /common
g --args /subject loop <<C | grep -i 'watch\|old\|new\|exited' | plain
break loop
run
watch watched
continue
continue
info watchpoints
delete
continue
C
## case: gdb-condition
. /common
g --args /subject loop <<C | grep 'Breakpoint\|^\$\|watched\|exited' | plain
break add if b == 3
run
print a
set var a = 1000
delete
continue
C
## case: gdb-call
. /common
g --args /subject loop <<'C' | grep '^\$\|watched\|exited' | plain
break loop
run
print add(2, 3)
call (int)getppid() > 0
print $_siginfo.si_signo
print watched = 50
delete
continue
C
## case: gdb-call-interrupted
# A function is called while a system call waits, which goes on after it.
. /common
(until grep -q ready out 2>/dev/null; do sleep 0.1; done; pkill -INT -f '^/subject waits'
 for i in $(seq 600); do grep -q '^\$2 = ' out && break; sleep 0.1; done
 sleep 3; pkill -USR1 -f '^/subject waits') &
g --args /subject waits <<'C' > out; grep '^\$\|watched\|exited\|SIG' out | plain
run
print add(2, 3)
call (int)getppid() > 0
handle SIGUSR1 nostop noprint
continue
C
## case: gdb-threads
. /common
g --args /subject threads <<C | plain | grep '^[ *]* [0-9]* *Th\|Breakpoint\|watched\|exited normally\|^#0'
break run
run
info threads
thread apply all bt 1
delete
continue
C
## case: gdb-follow-child
. /common
g --args /subject forks <<C | grep 'Breakpoint\|^#\|exited with\|^child' | sort | plain
set follow-fork-mode child
break add
run
bt
delete
continue
C
## case: gdb-follow-both
. /common
g --args /subject forks <<C | grep -c 'Catchpoint\|Inferior 2\|forks'
set detach-on-fork off
catch fork
run
info inferiors
next
C
## case: gdb-exec
. /common
g --args /subject exec <<C | grep 'Catchpoint\|Breakpoint\|^#\|watched\|exited' | plain
catch exec
run
break add
continue
bt
delete
continue
C
## case: gdb-syscall
. /common
g --args /subject files <<C | grep 'Catchpoint\|read\|exited' | plain
catch syscall lseek
run
continue
delete
continue
C
## case: gdb-syscall-execve
. /common
g --args /subject exec <<C | grep 'Catchpoint\|watched\|exited' | plain
catch syscall execve
run
continue
delete
continue
C
## case: gdb-signal
. /common
g --args /subject crash <<'C' | grep 'Program\|^\$\|^#' | sed 's/0x0*8$/8/' | plain
handle SIGSEGV stop print
run
print $_siginfo.si_signo
print $_siginfo._sifields._sigfault.si_addr
bt
continue
C
## case: gdb-core
. /common
ulimit -c unlimited; echo core > /proc/sys/kernel/core_pattern; echo 0 > /proc/sys/kernel/core_uses_pid
bash -c '/subject crash; exit $?' 2>/dev/null; echo $?; ls core
g /subject core <<'C' | grep 'Core was\|Program\|^#\|^\$\|Thread' | plain
bt
print pair
info threads
print $_siginfo.si_signo
C
## case: gdb-generate-core
. /common
g --args /subject loop <<C > /dev/null
break add
run
generate-core-file made
C
g /subject made <<C | grep '^#\|^\$' | plain
bt
print watched
C
## case: gdb-attach
. /common
/subject waits > out & pid=$!
while ! grep -q ready out; do sleep 0.1; done
g -p $pid <<C | grep '^\$\|etach' | plain
print watched
print watched = 7
detach
C
kill -USR1 $pid; wait $pid; echo $?; cat out
## case: gdbserver
. /common
g /subject <<C | grep 'Breakpoint\|^#\|Old\|New\|exited' | plain
target remote | gdbserver --once - /subject loop
break add
continue
bt
watch watched
continue
delete
continue
C
