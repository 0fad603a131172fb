#!/bin/sh
# Builds the kernel for the inner loop: tools/kbuild.sh ARCH [dev|release] [extra cargo args]
set -eu
cd "$(dirname "$0")/.."
arch=$1; profile=${2:-dev}; shift; [ $# -gt 0 ] && shift
flags="-Clinker=/usr/bin/ld.lld-22 -Clink-arg=-Tkernel/src/arch/$arch/link.ld -Clink-arg=--build-id=none -Crelocation-model=static -Cforce-frame-pointers=yes"
case $arch in
x86_64) target=x86_64-unknown-none; flags="$flags -Ccode-model=kernel -Clink-arg=-zmax-page-size=4096" ;;
arm64) target=aarch64-unknown-none-softfloat; flags="$flags -Clink-arg=-zmax-page-size=65536" ;;
# No unwind tables; the kernel unwinds by frame pointers. A32 code, soft floating point.
arm) target=armv7a-none-eabi; flags="$flags -Clink-arg=-zmax-page-size=4096 -Cforce-unwind-tables=no" ;;
# Stack frames are chained without a frame pointer.
powerpc64) target=powerpc64le-unknown-linux-gnu; flags="$(echo "$flags" | sed s/-Cforce-frame-pointers=yes//) -Clinker-flavor=ld.lld -Ctarget-feature=-altivec,-vsx -Clink-arg=-zmax-page-size=65536" ;;
*) echo "unknown architecture $arch" >&2; exit 2 ;;
esac
case $profile in dev) p=kernel-dev ;; release) p=kernel ;; esac
flags="$flags -Clink-arg=-zseparate-code -Zunstable-options"
CARGO_ENCODED_RUSTFLAGS= ; unset CARGO_ENCODED_RUSTFLAGS
RUSTFLAGS="$flags" RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo build -p limen-kernel --profile $p \
    --target $target --target-dir target/kernel/$arch -Zbuild-std=core,alloc,compiler_builtins -Zbuild-std-features=compiler-builtins-mem "$@"
# The symbol table for backtraces, filled in place.
RUSTC=/usr/bin/rustc /usr/bin/cargo run -q --release -p limen-embed-symbols -- target/kernel/$arch/$target/$p/limen-kernel
# The Arms boot a flat image.
if [ "$arch" = arm64 ] || [ "$arch" = arm ]; then
    out=target/kernel/$arch/$target/$p
    llvm-objcopy-22 -O binary "$out/limen-kernel" "$out/Image"
fi
