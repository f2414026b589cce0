//go:build linux && (amd64 || arm64) && !nodl

package train

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/system/mpi"
	"vsetrain/models"
)

// rankOf is set, to the file of a library, in processes that a launcher of MPI starts.
const rankOf = "VSETRAIN_TEST_RANK_OF"

// Ranks over MPI do the steps of one rank, with both libraries and one to four of them, and the same bits in a second
// start: an embedder, one with running statistics, and a scorer of pairs. TestRanksTrainAsOne has all networks.
func TestRanksOverMPI(t *testing.T) {
	if path := os.Getenv(rankOf); path != "" {
		overMPI(t, path)
		return
	}
	t.Setenv("VSETRAIN_MPI", "")
	for _, c := range []struct {
		file, launcher string
		args           []string
		ranks          []int
	}{
		{"libmpich.so.12", "mpiexec.hydra", nil, []int{1, 3, 3}},
		{"libmpi.so.40", "mpirun.openmpi", []string{"--allow-run-as-root", "--oversubscribe"}, []int{4, 2}},
	} {
		t.Run(c.file, func(t *testing.T) {
			paths := mpi.Search("/", os.Getenv).Paths()
			at := slices.IndexFunc(paths, func(p string) bool { return strings.HasSuffix(p, "/"+c.file) })
			launcher, err := exec.LookPath(c.launcher)
			if at < 0 || err != nil {
				t.Skipf("%s or %s is not here; scripts/install-test-tools.sh installs them", c.file, c.launcher)
			}
			before := map[int]string{}
			for _, n := range c.ranks {
				cmd := exec.CommandContext(t.Context(), launcher, append(slices.Clone(c.args), "-n", fmt.Sprint(n),
					os.Args[0], "-test.run", "^TestRanksOverMPI$")...)
				cmd.Env = append(os.Environ(), rankOf+"="+paths[at])
				out, err := cmd.CombinedOutput()
				var bits []string
				for _, line := range strings.Split(string(out), "\n") {
					if _, b, ok := strings.Cut(line, "bits "); ok {
						bits = append(bits, b)
					}
				}
				if err != nil || len(bits) != n || len(slices.Compact(slices.Clone(bits))) != 1 {
					t.Errorf("%d ranks: %v\n%s", n, err, out)
					continue
				}
				if before[n] != "" && before[n] != bits[0] {
					t.Errorf("%d ranks end with the bits %s, and in a second start with %s", n, before[n], bits[0])
				}
				before[n] = bits[0]
			}
		})
	}
}

// overMPI is what each rank does.
func overMPI(t *testing.T, path string) {
	w, err := mpi.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	world, bits := ranks.OverMPI(w), uint64(0)
	for _, c := range append(recordedCases(t), lossCases(t)...) {
		if !slices.Contains([]string{"vsepp lmh", "vsrn, captions false", models.SGR + " siglip"}, c.name) {
			continue
		}
		asOne(t, rankedCPU(t, world, cpu.FP64), c, alone(t, c, 2))
		s := c.step(rankedCPU(t, world, cpu.FP32))
		for i := range 4 {
			if _, err := s.Run(dealt(c.batch(i), w.Rank, w.Ranks), 1e-3, false); err != nil {
				t.Fatal(err)
			}
		}
		if r := RanksOf(s); r != nil {
			if err := r.Compare(); err != nil {
				t.Error(err)
			}
			bits = bits*31 + r.hash()
		}
	}
	if err := w.Finalize(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("bits %x\n", bits)
}
