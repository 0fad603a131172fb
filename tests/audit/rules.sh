## case: watches
export PATH=/usr/sbin:/usr/bin:/sbin:/bin; log=/var/log/audit/audit.log
auditd; until auditctl -s | grep -q '^enabled 1'; do sleep 0.05; done
mkdir /tmp/w
auditctl -w /tmp/w/x -p wa -k key
auditctl -w /tmp/w -p wa -k tree
auditctl -a always,exit -F path=/tmp/w/y -F perm=r -F key=read
auditctl -a always,exit -S execve -F exe=/bin/true -k program
auditctl -a always,exit -S openat -F success=0 -F dir=/tmp/w -F auid=unset -k refused
auditctl -l
touch /tmp/w/x; chmod 600 /tmp/w/x; mv /tmp/w/x /tmp/w/y; touch /tmp/w/x; mv /tmp/w/y /tmp/w/x; rm /tmp/w/x
ln -s nothing /tmp/w/l; mkdir /tmp/w/d; touch /tmp/w/d/inside; echo text > /tmp/w/y; cat /tmp/w/y
cat /tmp/w/none 2> none; /bin/true 'an argument' last; rm -r /tmp/w/d
auditctl -D
auditctl -m 'that is all'
until grep -q 'that is all' $log; do sleep 0.05; done
what='^type=[A-Z_]*\| item=[0-9]* name=[^ ]*\| nametype=[A-Z]*\| mode=[^ ]*\| cwd=.*\| argc=.*'
what+='\| a2=[A-Z_|]*\| syscall=[a-z0-9_]* success=[a-z]* exit=[^ ]*\| key=[a-z]*\|<no matches>'
said() {
  echo "== $*"
  ausearch -if $log -i "$@" 2>&1 | grep -o "$what"
}
for command in touch chmod mv rm; do said -k key -c $command; done
for command in touch ln mkdir rm; do said -k tree -c $command; done
said -k read -c cat; said -k refused -c cat; said -k program -c true | grep 'argc\|syscall\|key'
said -k key -c cat; said -f /tmp/w/y -c mv; said -m USER
aureport -if $log -f --summary -i | grep ' /tmp/w/[a-z]'
kill $(pidof auditd)
