#!/usr/bin/env bash
# Test the arm64 program: kernels, conformance of the CPU device, golden cases and a resumed training, a subset that takes
# about three minutes on two processors. On another machine it runs in qemu-user (Debian: apt install qemu-user).
# The tests are built without shared libraries (tag nodl), since there are none of arm64 to load.
#
#   scripts/test-arm64.sh
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
export GOOS=linux GOARCH=arm64 CGO_ENABLED=0

# on CPU... runs `go test ...` on a processor of qemu, or on this one if it is an arm64 itself.
on() {
  local cpu=$1
  shift
  local exec=(-exec "qemu-aarch64 -cpu $cpu")
  [ "$($go env GOHOSTARCH)" = arm64 ] && exec=()
  "$go" test -tags nodl -count=1 -timeout 20m "${exec[@]}" "$@"
}

if [ "$("$go" env GOHOSTARCH)" != arm64 ] && ! command -v qemu-aarch64 >/dev/null; then
  echo "test-arm64: there is no qemu-aarch64 here; install qemu-user (scripts/install-test-tools.sh)" >&2
  exit 1
fi

"$go" vet -tags nodl ./internal/compute/gemm ./internal/compute/vec ./internal/compute/tile64 ./internal/files/half ./cmd/vsetrain/internal/probe

# The processor max has the instructions of bf16.
on max ./internal/compute/vec ./internal/compute/tile64 ./internal/files/half
on max -run '^(Test(Conformance|ConformanceBF16|Batched|RowsAreTheSameProduct|ResultsDependOnRowAndColumnAlone|SteadyStateDoesNotAllocate|Layout))$/^(neon|neonbf16|bf16)$' ./internal/compute/gemm

# cortex-a72 has none: a kernel that took them for granted would end with an illegal instruction.
on cortex-a72 -run '^TestBatched$/^bf16$' ./internal/compute/gemm

# The device on them, golden cases of every network and loss, and training: its steps, threads, and a run that is interrupted.
on max -run '^TestConformance$/^fp32$' ./internal/compute/device/cpu
on max -run '^TestConformance$/^bf16$/^(Gemm|GRU|GRUGrad|Similarities|Factored)$' ./internal/compute/device/cpu
on max -run '^TestGolden' ./models ./models/nn ./loss
on max -run '^(TestGoldenTrainStep|TestGoldenOptim|TestNetworksDoNotDependOnThreads|TestNetworksResumeExactly)$' ./train
