# The shell itself: expansion, control, functions.
## case: expansion
x=hello; echo ${x} ${#x} ${x%lo} ${x#he} ${y:-default} ${y:=set} $y ${x:+alt} ${x/l/L}; z=a/b/c
echo ${z##*/} ${z%/*}; echo "$((3 * (4 + 5) % 7))" $((1 << 10)) $((0x1f)) $((y = 5, y + 1))
## case: quoting
a='single $x'; b="double $((1 + 1))"; echo "$a" "$b" \$x 'it'\''s'; echo "a   b" a   b; printf '%s|' "$@" "" x
echo
## case: loops
for i in a b c; do echo $i; done; i=0
while [ $i -lt 3 ]; do i=$((i + 1)); [ $i = 2 ] && continue; echo $i; done
until [ $i = 0 ]; do i=$((i - 1)); done; echo $i; for f in *.none; do echo "$f"; done
## case: case-esac
for w in apple bat 42 ''; do case $w in a*) echo A;; [0-9]*) echo N;; '') echo E;; *) echo other;; esac; done
## case: functions
f() { local v=$1; echo "f $v $#"; return 3; }; f a b; echo $?
g() { [ $1 = 0 ] && return; echo $1; g $(($1 - 1)); }; g 5; v=outer; h() { v=inner; }; h; echo $v
## case: here-docs
x=1; cat <<E
value $x $(echo sub) \$x
E
cat <<'E'
raw $x
E
cat <<-E
	tab stripped
	E
cat <<A; cat <<B
first
A
second
B
## case: here-doc-big
{ echo 'cat <<E'; seq 20000; echo E; } > s; sh s | md5sum; seq 20000 | md5sum
## case: subst
echo $(echo $(echo nested)); echo `echo back`; x=$(printf 'a\n\n\n'); echo "[$x]"; echo "$(seq 3)"
y=$(exit 5); echo $?
## case: subshell
x=1; (x=2; cd /; echo $x); echo $x; { x=3; }; echo $x; (exit 7); echo $?; ( ( echo deep ) )
## case: exit-status
true; echo $?; false; echo $?; sh -c 'exit 42'; echo $?; nosuchcommand 2>/dev/null; echo $?
/etc/passwd 2>/dev/null; echo $?; ! true; echo $?; false || true; echo $?; true && false; echo $?
## case: set-e
sh -c 'set -e; echo a; false; echo b'; echo $?; sh -c 'set -u; echo $nope' 2>/dev/null; echo $?
sh -c 'set -e; if false; then :; fi; echo ok'; sh -c 'set -o pipefail; false | true'; echo $?
## case: set-x
sh -c 'set -x; a=1; echo $a; [ $a = 1 ]' 2>&1
## case: read-builtin
printf 'a b c\nd\\te\n' | { read x y; echo "$x|$y"; read -r z; echo "$z"; read q; echo $?; }
echo 1:2:3 | { IFS=: read a b; echo $a $b; }
## case: positional
set -- a 'b c' d; echo $# "$2"; shift; echo "$*"; for x; do echo "<$x>"; done; IFS=,; echo "$*"; set --
echo $#
## case: getopts
f() {
  while getopts ab:c o; do case $o in a) echo a;; b) echo b=$OPTARG;; c) echo c;; *) echo bad;; esac; done
  shift $((OPTIND - 1)); echo rest $*
}
f -a -b val -c x y 2>&1
## case: glob
touch a1 a2 b1 .hid; mkdir d; touch d/a3; echo *; echo a?; echo [!a]*; echo */*; echo .h*; echo 'a*'
echo nomatch*
## case: ifs-split
x='a:b::c'; IFS=:; set -- $x; echo $#; for i in $x; do echo "[$i]"; done; unset IFS; x='  lead  trail  '
set -- $x; echo $#
## case: alias-eval
alias ll='echo aliased'; eval 'll x'; cmd='echo evaled; echo twice'; eval "$cmd"
eval 'exit_code() { return 9; }'; exit_code; echo $?; type cd | head -n 1
command -v ls > /dev/null && echo found
## case: env-export
A=1 sh -c 'echo $A'; echo ${A:-unset}; export B=2; sh -c 'echo $B'; env -i C=3 sh -c 'echo $C'
env -u B sh -c 'echo ${B:-gone}'; readonly R=1; (R=2) 2>&1 | sed 's/.*R:/R:/'; printenv B
## case: arithmetic
echo $((7 / 2)) $((-7 / 2)) $((7 % -3)) $((2 ** 10)) $((1 ? 2 : 3)) $((5 > 3 && 2 < 1)) \
  $((~0)) $((0777)) $((9223372036854775807 + 1))
i=5; echo $((i++)) $i $((--i)); (echo $((1 / 0))) 2>&1 | sed 's/.*: *//'
## case: test-files
touch f; mkdir d; ln -s f l; [ -e f ] && [ -f f ] && [ -d d ] && [ -L l ] && [ -h l ] && echo types
[ f -ef l ] && echo same; [ -x d ] && [ -O f ] && echo own; [ -t 0 ] || echo notty
[ -S f ] || [ -b f ] || [ -c /dev/null ] && echo kinds
## case: recursion-fork
fib() { if [ $1 -lt 2 ]; then echo $1; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }; fib 9
## case: many-processes
i=0; while [ $i -lt 200 ]; do /bin/busybox true; i=$((i + 1)); done; echo $i; i=0
while [ $i -lt 50 ]; do /bin/busybox true & i=$((i + 1)); done; wait; echo waited
## case: script-files
echo '#!/bin/sh
echo script $0 $1' > s; chmod +x s; ./s arg; sh s other; . ./s; echo 'echo sourced $v' > t; v=1; . ./t
printf '#!/bin/busybox awk -f\nBEGIN { print "awk script" }\n' > a; chmod +x a; ./a
printf '#!/no/such\n' > n; chmod +x n; ./n 2>/dev/null; echo $?
## case: big-arguments
x=$(head -c 100000 /dev/zero | tr '\0' y); echo ${#x}; /bin/busybox echo $x | wc -c
env X="$x" /bin/busybox sh -c 'echo ${#X}'; x=$(head -c $(($(stat -f -c %S .) * 34)) /dev/zero | tr '\0' y)
/bin/busybox echo $x 2>&1 | wc -c | awk '{ print ($1 > 100000) }'
## case: arg-list-limit
i=0; set --; while [ $i -lt 1200 ]; do set -- "$@" argument$i; i=$((i + 1)); done; /bin/busybox echo "$@" | wc
/bin/busybox printf '%s\n' "$@" | tail -n 1
