# Text tools.
## case: echo-printf
echo plain; echo -n no-newline; echo; echo -e 'a\tb\\c'; printf '%05d|%-6s|%x|%o|%c\n' 42 abc 255 8 z
printf '%s\n' one two three
## case: cat-options
printf 'a\tb\n\nc\n' > f; cat -n f; cat -A f; cat f f - < f
## case: head-tail
seq 1 100 > f; head -n 3 f; tail -n 3 f; head -c 10 f; tail -c 10 f; tail -n +98 f
## case: wc
printf 'one two\nthree\n' > f; wc f; wc -l < f; wc -w < f; wc -c < f
## case: cut-paste
printf 'a:b:c\nd:e:f\n' > f; cut -d: -f2 f; cut -d: -f1,3 f; cut -c1-3 f; cut -d: -f1 f > g; paste f g
paste -d, -s g
## case: sort-basic
printf 'banana\napple\ncherry\napple\n' > f; sort f; sort -r f; sort -u f; sort f | uniq -c; sort f | uniq -d
## case: sort-keys
printf '3 c\n10 a\n2 b\n' > f; sort -n f; sort -k2 f; sort -rn -k1,1 f; sort -c f; echo $?
## case: sort-10mb
x=$(head -c 92 /dev/zero | tr '\0' x); seq 1000000 1099999 | rev | sed "s/\$/ $x/" > f
ls -l f | awk '{ print $5 }'; sort f | md5sum; sort -rn f | head -n 3 | cut -c1-9
## case: tr
echo 'Hello World' | tr a-z A-Z; echo aabbcc | tr -s ab; echo hello | tr -d l; echo hi | tr -c 'a-z\n' x
## case: sed-basic
printf 'one\ntwo\nthree\n' > f; sed s/o/0/ f; sed -n 2p f; sed '2d' f; sed -e '1i\top' -e '$a\end' f
sed 's/\(t\)\(.\)/\2\1/g' f; sed -i 's/one/1/' f; cat f
## case: sed-program
seq 1 10 | sed -n '2,4{s/^/x/;p};$='; seq 1 5 | sed '1!G;h;$!d'; echo 'a,b,c' | sed 'y/abc/xyz/;s/,/\n/2'
## case: sed-hold
printf 'a\nb\nc\nd\n' | sed 'N;s/\n/-/'; printf 'x\n\n\ny\n' | sed '/^$/N;/\n$/D'
## case: grep
printf 'apple\nBanana\ncherry pie\n' > f; grep an f; grep -i AN f; grep -v e f; grep -c . f; grep -n r f
grep -E 'p{2}|rr' f; grep -o '[aeiou]' f | tr -d '\n'; echo; grep -q zzz f; echo $?; grep x nofile; echo $?
## case: grep-recursive
mkdir -p d/e; echo needle > d/a; echo hay > d/b; echo 'a needle' > d/e/c; grep -r needle d | sort
grep -rl needle d | sort; grep -w needle d/e/c; grep -A1 -B1 needle d/a
## case: awk-fields
printf 'alice 30\nbob 25\n' | awk '{ print $2, $1; s += $2 } END { print "sum", s, NR }'
## case: awk-arrays
printf 'a\nb\na\nc\na\n' | awk '{ n[$0]++ } END { for (k in n) print k, n[k] }' | sort
## case: awk-functions
awk 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } BEGIN { print f(15);
  printf "%s %d %.3f\n", substr("hello", 2, 3), length("four"), 10 / 3;
  print toupper("x"), index("hello", "l"); s = "aXbXc"; n = split(s, p, "X"); print n, p[2];
  gsub(/X/, "-", s); print s }'
## case: awk-io
awk 'BEGIN { while ((getline line < "/etc/passwd") > 0) n++; print (n > 0); "echo from-command" | getline x;
  print x; print "to sort b\nto sort a" | "sort"; close("sort"); system("echo system; exit 3"); exit 4 }'
echo $?
## case: awk-math
awk 'BEGIN { printf "%.6f %.6f %.6f %.4f\n", sin(1), atan2(1, 2), exp(1), log(10);
  print int(3.9), 2 ^ 10, 7 % 3, sqrt(2); srand(1); a = rand(); srand(1); print a == rand() }'
## case: awk-primes
awk 'BEGIN {
  for (i = 2; i <= 5000; i++) { p = 1; for (j = 2; j * j <= i; j++) if (i % j == 0) { p = 0; break } c += p }
  print c }'
## case: diff-cmp
printf 'a\nb\nc\n' > x; printf 'a\nB\nc\nd\n' > y; diff x y; echo $?; diff -u x y | tail -n +3; cmp x y
cmp x x; echo $?; diff -q x y
## case: patch
printf 'a\nb\nc\n' > x; cp x x0; printf 'a\nB\nc\n' > y; diff -u x y | sed '1s/.*/--- x/;2s/.*/+++ x/' > p
patch < p; cat x
## case: comm-join
printf 'a\nb\nd\n' > x; printf 'b\nc\nd\n' > y; comm x y; comm -12 x y
## case: fold-expand
echo 'the quick brown fox jumps' | fold -w 10; echo 'the quick brown fox' | fold -s -w 10
printf 'a\tb\n' | expand -t 4; printf 'a       b\n' | unexpand -a
## case: od-hexdump
printf 'Hello\000\377\n' > f; od -c f; od -x f; od -t x1 -An f; hexdump -C f; xxd f
## case: base64-sums
printf 'some text' | base64; printf 'c29tZSB0ZXh0' | base64 -d; echo; printf abc | md5sum
printf abc | sha1sum; printf abc | sha256sum; printf abc | sha512sum; printf abc | cksum
seq 100 | md5sum | md5sum
## case: tac-rev-nl
seq 3 | tac; echo abc | rev; printf 'a\n\nb\n' | nl; printf 'a\n\nb\n' | cat -b
## case: seq-yes-factor
seq 5; seq 2 3 10; seq -w 8 11; yes | head -n 2; yes a b | head -n 1; factor 360 97
## case: expr-test
expr 3 + 4 \* 2; expr hello : 'h\(.*\)o'; expr length hello; test 3 -lt 5 && echo lt; [ -n "" ] || echo empty
[ a = a -a b != c ] && echo and; test -d / && test ! -f / && echo dir
## case: bc-dc
echo '2^64; scale=5; 22/7; sqrt(2)' | bc; echo '3 4 + p 2 * p' | dc
## case: tee-xargs
seq 5 | tee f g > /dev/null; cat f g | wc -l; seq 6 | xargs -n 2 echo pair
printf 'a b\0c\0' | xargs -0 -n1 echo; seq 3 | xargs -I{} echo 'item {}'
## case: strings-dos2unix
printf 'ab\000longer string\000\001\002xyz\n' > f; strings f; printf 'a\r\nb\r\n' > d; dos2unix d; od -c d
## case: shuf-split
seq 10 > f; split -l 4 f part.; ls part.*; cat part.*| md5sum; md5sum < f; shuf f | sort -n | md5sum
## case: date-fixed
date -u -d @86400 '+%Y-%m-%d %H:%M:%S %a %j'; date -u -d '2024-02-29 12:00:00' +%s; TZ=UTC0 cal 2 2024
## case: unicode
printf 'h\303\251llo w\303\266rld\n' | wc -c; printf 'h\303\251\n' | od -t x1 -An
printf '\303\244\n' > "f\303\266"; ls | od -c | head -n 1
## case: long-lines
head -c 300000 /dev/zero | tr '\0' x > f; echo >> f; wc f; cut -c 299999- f
sed 's/x\{3\}$/end/' f | tail -c 7; grep -c x f
## case: timeout-time
timeout 1 sleep 5; echo $?; timeout 5 true; echo $?; timeout -s KILL 1 sleep 5; echo $?
