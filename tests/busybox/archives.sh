# Archives and compression.
## case: tar
mkdir -p d/e; echo 1 > d/a; echo 2 > d/e/b; ln -s a d/s; ln d/a d/h; tar cf t.tar d; tar tf t.tar | sort
mkdir x; tar xf t.tar -C x; find x | sort; cat x/d/s; stat -c %h x/d/a
## case: tar-gz
mkdir d; seq 1000 > d/f; tar czf t.tgz d; tar tzf t.tgz; rm -r d; tar xzf t.tgz; md5sum < d/f
tar xzOf t.tgz d/f | tail -n 1
## case: tar-modes
mkdir d; touch d/x; chmod 751 d/x; touch -d '2010-10-10 10:10:10' d/x; tar cf - d | (mkdir o; cd o; tar xpf -)
stat -c '%a %Y' o/d/x
## case: cpio
mkdir d; echo hi > d/f; find d | sort | cpio -o -H newc > a.cpio 2>/dev/null; cpio -t < a.cpio 2>/dev/null
mkdir x; cd x; cpio -id < ../a.cpio 2>/dev/null; cat d/f
## case: gzip
seq 10000 > f; gzip -k f 2>/dev/null || gzip -c f > f.gz; zcat f.gz | md5sum; md5sum < f; rm f; gunzip f.gz
md5sum < f; echo x | gzip | gunzip; echo notgz | gunzip 2>/dev/null; echo $?
## case: bzip2
seq 10000 > f; bzip2 f; ls; bzcat f.bz2 | md5sum; bunzip2 f.bz2; md5sum < f
## case: xz-unxz
seq 3000 | md5sum; printf '\3757zXZ\0\0\4bad' > b.xz; unxz b.xz 2>/dev/null; echo $?
## case: lzop
seq 5000 > f; lzop f 2>/dev/null && lzop -d < f.lzo | md5sum; md5sum < f
## case: unzip-none
unzip nothere.zip 2>/dev/null; echo $?
## case: ar
echo 1 > a; echo 2 > b; ar -r x.a a b 2>/dev/null; ar -t x.a 2>/dev/null; echo done
## case: uuencode
seq 5 > f; uuencode f name > u; cat u; rm -f name; uudecode u; cat name
## case: tar-pipe-big
mkdir d; for i in 1 2 3 4 5 6 7 8; do seq $((i * 20000)) > d/f$i; done
tar c d/f1 d/f2 d/f3 d/f4 d/f5 d/f6 d/f7 d/f8 | gzip -1 | gunzip | tar x -O | md5sum; cat d/f* | md5sum
