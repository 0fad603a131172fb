# Debian's ltrace.
## case: ltrace-calls
ltrace -o t -e strcmp+lseek+unlink /subject files; echo $?
sed 's/^subject->//; s/  */ /g; s/0x[0-9a-f]*/A/g' t | grep 'lseek\|unlink'
## case: ltrace-system
ltrace -S -o t -e lseek /subject files; echo $?; grep -c 'SYS_lseek' t
