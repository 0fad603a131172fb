# The host's own programs, each case run by bash.
## case: bash-script
declare -A count=([a]=1 [b]=2); for k in "${!count[@]}"; do echo "$k ${count[$k]}"; done | sort
arr=(one two "three four"); echo "${#arr[@]} ${arr[2]} ${arr[@]:1:1}"; arr+=(five); printf '%s,' "${arr[@]}"
echo
[[ hello =~ ^h(.*)o$ ]] && echo "${BASH_REMATCH[1]}"; [[ -n x && 3 -gt 2 ]] && echo cond
x=abcdef; echo "${x:2:3} ${x^^} ${x/cd/XX} ${x//[ace]/_}"
f() { local -n ref=$1; ref=changed; }; v=old; f v; echo $v
while IFS=, read -r a b; do echo "$b-$a"; done < <(printf '1,2\n3,4\n')
echo $((16#ff)) $((2**20)) $(( (5 > 3) ? 1 : 0 ))
mapfile -t lines < <(seq 3); echo "${lines[*]}"; coproc CAT { cat; }; echo via coproc >&"${CAT[1]}"
read -r r <&"${CAT[0]}"; echo "$r"; kill $CAT_PID
trap 'echo exit trap' EXIT; select_none=; case xyz in x*z) echo glob;; esac; printf -v pv '%03d' 7; echo $pv
echo {1..5} {a..e..2}
time_out=$( { TIMEFORMAT=%R; time sleep 0.1; } 2>&1 ); [[ $time_out =~ ^[0-9]+\.[0-9]{3}$ ]] && echo timed
echo $BASH_SUBSHELL $(echo $BASH_SUBSHELL)
## case: bash-jobs
# The first job ends when it sees the shell asleep, which is in `wait -n`: how fast anything starts does not
# matter.
set -m; (until read -r _ _ state _ < /proc/$$/stat && [[ $state == S ]]; do sleep 0.05; done; exit 3) &
wait -n; echo $?; wait; jobs; (exit 4) & wait $!; echo $?; sleep 9 & disown; kill %% 2>/dev/null; echo end
pkill sleep 2>/dev/null; true
## case: bash-long
# A program of some length: a queue simulation, a sieve, a word count, sorting, recursion, string building.
sieve() {
  local n=$1 i j; local -a p; for ((i = 2; i <= n; i++)); do p[i]=1; done
  for ((i = 2; i * i <= n; i++)); do ((p[i])) && for ((j = i * i; j <= n; j += i)); do p[j]=0; done; done
  local out=; for ((i = 2; i <= n; i++)); do ((p[i])) && out+="$i "; done; echo "$out"
}
sieve 200
quick() {
  (($# <= 1)) && { echo "$@"; return; }; local pivot=$1 x; shift; local lo=() hi=()
  for x; do if ((x < pivot)); then lo+=($x); else hi+=($x); fi; done
  echo $(quick ${lo[@]+"${lo[@]}"}) $pivot $(quick ${hi[@]+"${hi[@]}"})
}
quick 5 3 9 1 7 2 8 6 4
hanoi() { (($1 == 0)) && return; hanoi $(($1 - 1)) $2 $4 $3; ((moves++)); hanoi $(($1 - 1)) $4 $3 $2; }
moves=0; hanoi 8 a b c; echo $moves
text='the cat and the dog and the bird'; declare -A n; for w in $text; do ((n[$w]++)); done
for w in "${!n[@]}"; do echo "$w ${n[$w]}"; done | sort -k2,2nr -k1,1
s=; for ((i = 0; i < 500; i++)); do s+=$((i % 10)); done; echo ${#s} $(md5sum <<< "$s")
while read -r line; do set -- $line; echo $(($1 * $2)); done <<E
3 4
5 6
E
matrix() {
  local i j k
  for i in 0 1 2; do
    for j in 0 1 2; do local t=0; for k in 0 1 2; do t=$((t + (i + k) * (k * j))); done; printf '%d ' $t; done
    echo
  done
}
matrix
gcd() { (($2 == 0)) && echo $1 || gcd $2 $(($1 % $2)); }; gcd 1071 462
for i in {1..100}; do echo $((i * 7919 % 101)); done | sort -n | uniq -c | awk '$1 > 1' | wc -l
exec 3<<< 'from a descriptor'; read -r -u 3 x; echo $x; exec 3<&-
## case: coreutils
seq 20 | shuf --random-source=/dev/zero | sort -n | md5sum; seq 100 | split -l 30 - part.; ls part.*
stat -c '%s' part.aa; cat part.* | tac | head -n 2; od -An -tx1 <<< hi; date -u -d @1700000000 +%FT%TZ
cut -c1-2 <<< hello; paste -sd+ <(seq 4); join <(printf '1 a\n2 b\n') <(printf '1 x\n2 y\n'); expr 6 \* 7
factor 1001; sha256sum <<< abc; install -D -m 640 part.aa x/y/z; stat -c %a x/y/z; ln -s x/y l
readlink -f l | sed 's|.*/x|x|'; mktemp -u XXXX | wc -c; timeout 0.2 sleep 5; echo $?; nproc --all | wc -l
truncate -s 1G sparse; du sparse | cut -f1; df . | wc -l; nl <<< a; tr a-z A-Z <<< up
yes | head -n 3 | uniq -c; realpath -m /a/../b; test -d x && rm -r x && ls
## case: coreutils-ls
mkdir d; touch d/{a,b,c}; chmod 640 d/a; ln -s a d/l; mkfifo d/p
ls -la --time-style=+ d | awk '{ print $1, $2, $3, $4, $6, $7, $8 }' | grep -v '^total'; ls -R d
ls --color=always d | od -c | head -n 3; stat -c '%A %h %F' d d/l d/p; chown 5:6 d/a
ls -ln --time-style=+ d/a | cut -d' ' -f3,4
## case: cp-mv-sparse
head -c 3000000 /dev/zero > z; echo end >> z; cp --sparse=always z s; cmp z s; echo $?; cp -a z keep
mv keep moved; ls -l moved | awk '{ print $5 }'; cp -rl . ../copy-$$ 2>/dev/null; rm -rf ../copy-$$
mkdir -p a/b/c; touch a/b/c/f; cp -r a x; find x | sort; rm -rf a x; ls
## case: grep-sed-awk
printf 'foo 1\nbar 22\nbaz 333\n' > f; grep -E '[0-9]{2,}' f; grep -oP '\d+' f 2>/dev/null; grep -c a f
grep -vn a f; sed -E 's/([a-z]+) ([0-9]+)/\2 \1/' f; sed -n '/bar/,$p' f; sed -i.bak 2d f; diff f f.bak
gawk '{ s += $2; a[length($1)] = a[length($1)] $1 } END { print s; for (i in a) print i, a[i] }' f.bak
gawk 'BEGIN { PROCINFO["sorted_in"] = "@ind_str_asc"; x["b"]; x["a"]; for (k in x) print k;
  print gensub(/a/, "b", "g", "banana"), strftime("%Y", 0, 1), and(12, 10) }'
## case: find-xargs
mkdir -p t/{a,b}/{c,d}; for i in t/*/*; do echo $i > $i/f; done
find t -type f -newermt 2000-01-01 -printf '%P %s %y\n' | sort
find t -type f -print0 | sort -z | xargs -0 -n1 -P2 wc -c | sort; find t -depth -delete; ls
## case: tar-gzip-xz
mkdir -p tree/sub; for i in 1 2 3 4 5 6 7 8 9; do seq $((i * 1000)) > tree/sub/f$i; done
ln -s sub/f1 tree/link; ln tree/sub/f2 tree/hard; chmod 751 tree/sub/f3; tar -cf a.tar tree; gzip -k a.tar
xz -k -1 a.tar
for a in a.tar a.tar.gz a.tar.xz; do
  rm -rf out; mkdir out; tar -xf $a -C out; diff -r tree out/tree && echo same
  stat -c '%a %h' out/tree/sub/f3 out/tree/hard
done
xz -dc a.tar.xz | cmp - a.tar; tar -tvf a.tar | awk '{ print $1, $2, $3 }' | sort | head -n 4
## case: tar-real-tree
cp -r /usr/lib/git-core /tmp/src-$$ 2>/dev/null || mkdir /tmp/src-$$; cp -r /cases /tmp/src-$$/
(cd /tmp && tar -c src-$$ | xz -0 -T2 | xz -d | tar -x -C "$OLDPWD"); diff -r /tmp/src-$$ src-$$ && echo same
rm -rf /tmp/src-$$
## case: git
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
git config --global user.email a@b; git config --global user.name N
git config --global init.defaultBranch main; git init -q r; cd r; echo one > f; git add f
git commit -qm first; echo two >> f; mkdir d; echo x > d/g; git add .; git commit -qm second
git log --oneline; git log --stat --format=%s | cat; git diff HEAD~1 | cat; git checkout -q -b side HEAD~1
echo three > h; git add h; git commit -qm third; git merge -q -m merged main
git log --graph --format=%s | cat; git status --short; git gc -q; git fsck --full 2>&1 | tail -n 1
git clone -q . ../c; ls ../c; cd ../c; git rev-parse HEAD; git archive HEAD | tar t | sort
## case: perl
perl -e 'my %h = map { $_ => length } qw(a bb ccc); print "$_ $h{$_}\n" for sort keys %h;
  print join(",", sort { $b <=> $a } 3, 10, 2), "\n"; my $s = "x=1,y=22";
  print "$1:$2\n" while $s =~ /(\w)=(\d+)/g; printf "%.3f %s\n", atan2(1,1)*4, scalar reverse "abc";'
seq 10 | perl -ne '$s += $_; END { print "$s\n" }'
perl -e 'my $pid = fork; if (!$pid) { exit 3 } waitpid $pid, 0; print $? >> 8, "\n"; pipe(R, W);
  if (!fork) { close R; print W "from child\n"; exit } close W; print <R>; wait; open F, ">", "f";
  print F "data\n"; close F; print -s "f", "\n"; $SIG{USR1} = sub { print "sig\n" }; kill USR1 => $$;
  local $SIG{ALRM} = sub { die "alarm\n" }; alarm 1; eval { sleep 5 }; print $@; print `echo backtick`;
  opendir D, "."; print join(" ", sort grep !/^\./, readdir D), "\n"'
perl -pi -e 's/data/changed/' f; cat f
## case: perl-sort-big
perl -e 'my $x = 1; my @a = map { $x = ($x * 1103515245 + 12345) % 2147483648 } 1..200000;
  @a = sort { $a <=> $b } @a; print "$a[0] $a[-1] ", scalar(@a), "\n"; my %h; $h{$_ % 1000}++ for @a;
  print scalar(keys %h), "\n"; print length("x" x 30_000_000), "\n"'
## case: procps
ps -p $$ -o comm=; ps -e -o pid= | awk '$1 == 1' | wc -l; ps aux | head -n 1 | awk '{ print $1, $2, $11 }'
sleep 60 & until [[ $(ps -o comm= -p $!) == sleep ]]; do :; done
for i in {1..100}; do s=$(ps -o stat= -p $! | cut -c1); [[ $s == S ]] && break; sleep 0.05; done; echo $s
kill $!; wait 2>/dev/null; [[ $(ps -o ppid= -p $$) -gt 0 ]] && echo ppid
## case: bash-signals
trap 'echo usr1' USR1; kill -USR1 $$; trap 'echo term' TERM; (sleep 0.2; kill -TERM $$) & wait; wait
echo survived
{ bash -c 'kill -SEGV $$'; echo $?; bash -c 'ulimit -c 0; kill -ABRT $$'; echo $?; } 2>/dev/null
timeout -s INT 3 bash -c 'trap "echo int; exit 7" INT; while :; do sleep 0.05; done'; echo $?
## case: pipes-and-substitution
seq 100000 | tee >(wc -l > n) | sort -rn | head -n 1; until [[ -s n ]]; do sleep 0.05; done; cat n
diff <(seq 3) <(seq 1 3) && echo equal; for i in {1..50}; do echo $i | cat | cat > /dev/null; done
echo ${PIPESTATUS[@]}; yes | head -c 3000000 | md5sum; cat <(cat <(echo nested))
## case: xz-big
seq 300000 > f; xz -0 -k f; xz -l f.xz > /dev/null; echo $?; xz -dc f.xz | md5sum; md5sum < f
gzip -9 < f | gzip -d | cmp - f; echo $?
## case: mount-and-df
mkdir m; mount -t tmpfs -o size=1m tmpfs m; df --output=size m | tail -n 1; head -c 2000000 /dev/zero > m/f
echo $?; umount m; ls m
## case: diff-patch
seq 50 > a; sed 's/^2$/two/;40d' a > b; diff a b; diff -u a b | tail -n +3 | head -n 5
diff -y --suppress-common-lines a b; cmp a b; diff -q a b; sdiff -s a b 2>/dev/null
## case: many-forks
for ((i = 0; i < 300; i++)); do /usr/bin/true; done; echo $i; for ((i = 0; i < 100; i++)); do (:) & done; wait
echo done; printf '%s\n' {1..200} | xargs -n 1 -P 4 echo | sort -n | md5sum
