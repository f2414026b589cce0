#!/usr/bin/env bash
# The second driver binding (build tag vsecu, gorgonia.org/cu): docs/cuda.md.
#
#   scripts/vsecu.sh env     print the settings of cgo, for eval: afterwards plain `go build -tags vsecu ./...` works
#   scripts/vsecu.sh build   build bin/vsetrain-vsecu, and every package of the module
#   scripts/vsecu.sh test    run the tests of the driver, the emulator and the device through it, on the emulated driver
#
# gorgonia.org/cu includes <cuda.h> and links -lcuda. Where CUDA is installed both may be its own; here they are a header of this project and
# a library without code, made from that header, which names what the real one must have. The program looks for libcuda.so.1 when it starts.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
folder=$root/bin/vsecu
GO=${GO:-go}

say() { printf 'vsecu: %s\n' "$*" >&2; }

# stub writes the library that -lcuda means while linking. 34 is what NVIDIA's own returns: "this is a stub".
stub() {
  mkdir -p "$folder"
  "${CC:-gcc}" -E -P "$root/internal/compute/device/cuda/driver/include/cuda.h" |
    sed -nE 's/^CUresult (cu[A-Za-z0-9_]+)\(.*/int \1(void) { return 34; }/p' |
    "${CC:-gcc}" -shared -fPIC -x c - -o "$folder/libcuda.so" -Wl,-soname,libcuda.so.1
}

settings() {
  export CGO_ENABLED=1
  export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -I$root/internal/compute/device/cuda/driver/include"
  # lazy: an entry that a driver lacks matters when it is called, which vsetrain does not do
  export CGO_LDFLAGS="${CGO_LDFLAGS:--O2 -g} -L$folder -Wl,-z,lazy"
}

case ${1:-} in
env)
  stub
  settings
  for name in CGO_ENABLED CGO_CFLAGS CGO_LDFLAGS; do printf 'export %s=%q\n' "$name" "${!name}"; done
  ;;
build)
  stub
  settings
  "$GO" build -tags vsecu ./...
  "$GO" build -tags vsecu -trimpath -ldflags "${LDFLAGS:--s -w}" -o bin/vsetrain-vsecu ./cmd/vsetrain
  say "built bin/vsetrain-vsecu; it needs libcuda.so.1 where it runs"
  ;;
test)
  for tool in "${CC:-gcc}" "${CXX:-g++}"; do
    command -v "$tool" >/dev/null || { say "skipped: no $tool here, and cgo or the emulated driver need it"; exit 0; }
  done
  [ "$("$GO" env GOOS)/$("$GO" env GOARCH)" = linux/amd64 ] || { say "skipped: the emulated driver is for linux/amd64"; exit 0; }
  stub
  settings
  mkdir -p "$folder/emulated"
  bash lab/emulator/src/build.sh internal/compute/device/cuda/kernels "$folder/emulated/libcuda.so.1"
  export VSETRAIN_EMULATOR=$folder/emulated/libcuda.so.1 LD_LIBRARY_PATH=$folder/emulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  "$GO" vet -tags vsecu ./internal/compute/device/cuda/...
  "$GO" test -tags vsecu ./internal/compute/device/cuda/driver ./lab/emulator
  "$GO" test -tags vsecu -run 'Open|Full|Fault|TF32|Conformance/(Memory|Gemm|L2Norm|Hinge|Adam)$' ./internal/compute/device/cuda
  ;;
*)
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
