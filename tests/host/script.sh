# A bash script of some length: what bash itself can do, with as few other programs as possible.
## case: bash-200-lines
set -u
shopt -s extglob nullglob
declare -i failures=0 checks=0

check() { # name expected actual
    checks+=1
    if [[ "$2" == "$3" ]]; then
        printf 'ok   %s\n' "$1"
    else
        printf 'FAIL %s: %q instead of %q\n' "$1" "$3" "$2"
        failures+=1
    fi
}

# Stacks and queues.
declare -a stack=()
push() { stack+=("$@"); }
pop() {
    local -n into=$1
    into=${stack[-1]}
    unset 'stack[-1]'
}
push a b 'c d'
pop x
check stack 'c d' "$x"
check stack-rest 2 "${#stack[@]}"

# Numbers.
gcd() {
    local a=$1 b=$2 t
    while ((b)); do
        t=$((a % b)) a=$b b=$t
    done
    echo "$a"
}
check gcd 21 "$(gcd 1071 462)"
power() {
    local -i base=$1 exponent=$2 result=1
    while ((exponent > 0)); do
        ((exponent & 1)) && result=result*base
        base=base*base
        exponent=exponent/2
    done
    echo "$result"
}
check power 1162261467 "$(power 3 19)"
to_base() {
    local n=$1 base=$2 digits=0123456789abcdef out=
    until ((n == 0)); do
        out=${digits:n % base:1}$out
        n=$((n / base))
    done
    echo "$out"
}
check base-2 1100100 "$(to_base 100 2)"
check base-16 ff "$(to_base 255 16)"
check back 255 "$((2#$(to_base 255 2)))"

# Primes by a sieve.
primes() {
    local -i limit=$1 i j
    local -a composite=()
    for ((i = 2; i <= limit; i++)); do
        [[ -n ${composite[i]:-} ]] && continue
        echo "$i"
        for ((j = i * i; j <= limit; j += i)); do
            composite[j]=1
        done
    done
}
check primes 46 "$(primes 200 | wc -l)"
check largest 199 "$(primes 200 | tail -n 1)"

# Sorting without sort.
quicksort() {
    (($# < 2)) && {
        echo "$@"
        return
    }
    local pivot=$1 item
    local -a below=() above=()
    shift
    for item; do
        if ((item < pivot)); then below+=("$item"); else above+=("$item"); fi
    done
    echo $(quicksort "${below[@]}") "$pivot" $(quicksort "${above[@]}")
}
check sorted '1 2 3 5 7 8 9' "$(quicksort 5 3 9 1 7 2 8)"

# Words.
declare -A words=()
while read -r -a line; do
    for word in "${line[@]}"; do
        word=${word,,}
        word=${word//[^a-z]/}
        ((words[$word] += 1))
    done
done <<'TEXT'
The cat sat on the mat. The dog sat
on the cat; the mat was flat!
TEXT
check the 5 "${words[the]}"
check distinct 8 "${#words[@]}"
for word in "${!words[@]}"; do
    printf '%d %s\n' "${words[$word]}" "$word"
done | sort -k1,1nr -k2 | head -n 3

# Strings.
path=/usr/share/doc/bash.tar.gz
check base bash.tar.gz "${path##*/}"
check dir /usr/share/doc "${path%/*}"
check suffix gz "${path##*.}"
check stem bash "$(basename "${path%%.*}")"
part=${path:1:3}
check upper USR "${part^^}"
check replaced -usr-share-doc-bash.tar.gz "${path//\//-}"
trim() {
    local s=$1
    s=${s##+([[:space:]])}
    echo "${s%%+([[:space:]])}"
}
check trimmed 'a b' "$(trim '   a b  ')"
reverse() {
    local s=$1 out=
    while [[ -n $s ]]; do
        out=${s:0:1}$out s=${s:1}
    done
    echo "$out"
}
check reversed nomil "$(reverse limon)"
[[ 2024-02-29 =~ ^([0-9]{4})-([0-9]{2})-([0-9]{2})$ ]]
check matched '29/02/2024' "${BASH_REMATCH[3]}/${BASH_REMATCH[2]}/${BASH_REMATCH[1]}"
printf -v formatted '%05d|%-4s|%x' 42 ab 255
check formatted '00042|ab  |ff' "$formatted"

# Files.
mkdir -p work/{one,two}/{a,b}
for d in work/*/*; do
    echo "$d" > "$d/name"
done
names=(work/*/*/name)
check files 4 "${#names[@]}"
check content work/two/b "$(< work/two/b/name)"
check none 0 "$(shopt -s nullglob; set -- work/nothing*; echo $#)"
exec 7> log
echo first >&7
echo second >&7
exec 7>&-
mapfile -t entries < log
check log 'second first' "${entries[1]} ${entries[0]}"
exec 8<> log
read -r -u 8 line
echo changed >&8
exec 8>&-
check rewritten 'first changed' "$(echo $(head -n 2 log))"
rm -r work
[[ -e work ]] || echo 'work is gone'

# Processes.
pids=()
for i in 1 2 3 4; do
    (exit $((i * 10))) &
    pids+=($!)
done
sum=0
for pid in "${pids[@]}"; do
    wait "$pid" || sum=$((sum + $?))
done
check waited 100 "$sum"
produce() { for ((i = 0; i < $1; i++)); do echo "item $i"; done; }
consume() { local n=0; while read -r _ k; do n=$((n + k)); done; echo $n; }
check pipeline 4950 "$(produce 100 | consume)"
check substitution 'x y' "$(paste -d' ' <(echo x) <(echo y))"
coproc ADDER { while read -r a b; do echo $((a + b)); done; }
adder=$ADDER_PID
echo 20 22 >&"${ADDER[1]}"
read -r answer <&"${ADDER[0]}"
check coprocess 42 "$answer"
eval "exec ${ADDER[1]}>&-"
wait "$adder"
check ended 0 $?
got=
trap 'got+=u' USR1
kill -USR1 $BASHPID
kill -USR1 $BASHPID
check signals uu "$got"
check subshell 1 "$(echo $BASH_SUBSHELL)"

# Choices.
classify() {
    case $1 in
        +([0-9])) echo number ;;
        *.tar.@(gz|xz)) echo archive ;;
        '') echo nothing ;;
        *) echo other ;;
    esac
}
check classes 'number archive nothing other' \
  "$(for i in 12 a.tar.xz '' x; do classify "$i"; done | paste -sd' ')"
(trap 'echo "leaving with $?"' EXIT; exit 3)
check status 3 $?
timeout 0.2 sleep 10
check timeout 124 $?

echo "$checks checks, $failures failures"
exit "$failures"
