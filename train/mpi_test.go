//go:build linux && (amd64 || arm64) && !nodl

package train

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/system/mpi"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// rankOf is set, to the file of a library, in processes that a launcher of MPI starts.
const rankOf = "VSETRAIN_TEST_RANK_OF"

// long asks for every network with every loss on one to four ranks of each library (make test-long).
var long = os.Getenv("VSETRAIN_LONG") != ""

// Ranks over MPI do the steps of one rank, with both libraries and one to three of them, and the same bits in a second
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
		{"libmpich.so.12", "mpiexec.hydra", nil, []int{1, 2, 2}},
		{"libmpi.so.40", "mpirun.openmpi", []string{"--allow-run-as-root", "--oversubscribe"}, []int{3}},
	} {
		t.Run(c.file, func(t *testing.T) {
			paths := mpi.Search("/", os.Getenv).Paths()
			at := slices.IndexFunc(paths, func(p string) bool { return strings.HasSuffix(p, "/"+c.file) })
			launcher, err := exec.LookPath(c.launcher)
			if at < 0 || err != nil {
				t.Skipf("%s or %s is not here; scripts/install-test-tools.sh installs them", c.file, c.launcher)
			}
			before := map[int]string{}
			if long {
				c.ranks = []int{1, 2, 3, 4, 3}
			}
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
	w := try.Get(mpi.Load(path))(t)
	try.Do(t, w.Init())
	bits := uint64(0)
	if long {
		for _, c := range everyLoss(t) {
			asOne(t, rankedCPU(t, w, cpu.FP64), c, alone(t, c, 1))
		}
	}
	for _, c := range append(recordedCases(t), lossCases(t)...) {
		if !long && !slices.Contains([]string{"vsepp lmh", "vsrn, captions false", models.SGR + " siglip"}, c.name) {
			continue
		}
		asOne(t, rankedCPU(t, w, cpu.FP64), c, alone(t, c, 2))
		steps, one := 4, (*Step)(nil)
		if long {
			steps, one = 30, c.step(openCPU(t, cpu.Options{Threads: 1}))
			one.factorFrom = math.MaxInt
		}
		s := c.step(rankedCPU(t, w, cpu.FP32))
		for i := range steps {
			rank, ranks := w.Rank()
			got := try.Get(s.Run(sharded(c.batch(i), rank, ranks), 1e-4, false))(t)
			if one == nil {
				continue
			}
			if want, err := one.Run(c.batch(i), 1e-4, false); err != nil {
				t.Fatal(err)
			} else if !(math.Abs(got.Loss-want.Loss) <= 1e-5*want.Loss) {
				t.Errorf("%s, float32, step %d: loss %v, %v alone", c.name, i, got.Loss, want.Loss)
				break
			}
		}
		if r := RanksOf(s); r != nil {
			if err := r.Compare(); err != nil {
				t.Error(err)
			}
			bits = bits*31 + r.hash()
		}
	}
	try.Do(t, w.Finalize())
	fmt.Printf("bits %x\n", bits)
}

// everyLoss is every network with every loss.
func everyLoss(t *testing.T) (all []recordedCase) {
	for _, c := range recordedCases(t) {
		if c.name != "vsepp lmh" && c.name != "vsrn, captions false" && c.name != "vseinf" &&
			!slices.Contains(models.Available(), c.name) {
			continue
		}
		for _, name := range loss.Names() {
			step := c.step
			all = append(all, recordedCase{c.name + " with " + name, 1, c.lr, func(d device.Device) *Step {
				l := loss.DefaultOptions()
				l.Name = name
				o := step(openCPU(t, cpu.Options{Threads: 1, Precision: cpu.FP64})).model
				m := try.Get(NewModel(d, o.Options, o.Dims, &l))(t)
				m.Init(3, nil)
				return try.Get(NewStep(m, l, adam(1e-2)))(t)
			}, func(i int) *data.Batch {
				b := c.batch(i)
				if b.Indices == nil {
					for k := range int32(b.N) {
						b.Indices = append(b.Indices, 3*k)
					}
				}
				return b
			}})
		}
	}
	return all
}
