//go:build linux && (amd64 || arm64) && !nodl

package mpi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// rankOf is set, to the file of a library, in processes that a launcher of MPI starts.
const rankOf = "VSETRAIN_TEST_RANK_OF"

func TestMain(m *testing.M) {
	if path := os.Getenv(rankOf); path != "" {
		if err := rank(path); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Collectives of two and three ranks are right, and signals do what they do without MPI, with the libraries that are
// installed here.
func TestLibraries(t *testing.T) {
	for _, c := range []struct {
		kind           Kind
		file, launcher string
		args           []string
	}{
		{MPICH, "libmpich.so.12", "mpiexec.hydra", nil},
		{OpenMPI, "libmpi.so.40", "mpirun.openmpi", []string{"--allow-run-as-root", "--oversubscribe"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Setenv("VSETRAIN_MPI", "")
			lib := ""
			for _, path := range Search("/", os.Getenv).Paths() {
				if strings.HasSuffix(path, "/"+c.file) && lib == "" {
					lib = path
				}
			}
			launcher, err := exec.LookPath(c.launcher)
			if lib == "" || err != nil {
				t.Skipf("%s or %s is not here; scripts/install-test-tools.sh installs them", c.file, c.launcher)
			}
			if kind, err := KindOf(lib); kind != c.kind || err != nil {
				t.Errorf("%s is of kind %q (%v), expected %q", lib, kind, err, c.kind)
			}
			for _, n := range []string{"1", "2", "3"} {
				cmd := exec.CommandContext(t.Context(), launcher, append(c.args, "-n", n, os.Args[0])...)
				cmd.Env = append(os.Environ(), rankOf+"="+lib)
				out, err := cmd.CombinedOutput()
				if want := fmt.Sprintf("right of %s with %s\n", n, c.kind); err != nil ||
					fmt.Sprint(strings.Count(string(out), want)) != n {
					t.Errorf("%s ranks: %v\n%s", n, err, out)
				}
			}
		})
	}
}

// A file of another kind is refused by its name.
func TestKindOf(t *testing.T) {
	for _, path := range []string{os.Args[0], "mpi.go", "nowhere"} {
		try.Refuses(KindOf(path))(t, path+" is not an MPI library: ")
	}
}

// rank is what each process does.
func rank(path string) error {
	w, err := Load(path)
	if err == nil {
		err = w.Init()
	}
	if err != nil {
		return err
	}
	if w.Version == "" {
		return errors.New("the library tells no version")
	}
	for _, n := range []int{1, 1000, piece + 3} {
		if err := errors.Join(collectives[float32](w, n), collectives[float64](w, n)); err != nil {
			return fmt.Errorf("%d values: %w", n, err)
		}
	}
	if err := errors.Join(waiting(w), leaving(w)); err != nil {
		return err
	}
	if err := w.AllGather(make([]float32, 1+w.ranks), make([]float32, 1)); err == nil {
		return errors.New("a gather of other sizes is not refused")
	}
	if err := signalsAsBefore(); err != nil {
		return err
	}
	if err := w.Finalize(); err != nil {
		return err
	}
	fmt.Printf("right of %d with %s\n", w.ranks, w.Kind)
	return nil
}

// waiting checks that nobody passes Wait before the last rank comes, which is late.
func waiting(w *World) error {
	if w.rank == w.ranks-1 {
		time.Sleep(100 * time.Millisecond)
	}
	came := []float64{float64(time.Now().UnixNano())}
	if err := w.Wait(); err != nil {
		return err
	}
	left := time.Now().UnixNano()
	if err := w.Broadcast(came, w.ranks-1); err != nil {
		return err
	}
	if float64(left) < came[0] {
		return errors.New("Wait returned before the last rank came")
	}
	return nil
}

// leaving checks that ranks leave the processor to others while they wait for a late one, in every collective.
func leaving(w *World) error {
	const late = 200 * time.Millisecond
	x, y, all := make([]float32, w.ranks), make([]float32, w.ranks), make([]float32, w.ranks*w.ranks)
	for i, call := range []func() error{
		func() error { return w.AllReduce(x) },
		func() error { return w.Broadcast(x, w.ranks-1) },
		func() error { return w.AllGather(all, x) },
		func() error { return w.ReduceScatter(x, all) },
		func() error { return w.AllToAll(x, y) },
	} {
		if w.rank == w.ranks-1 {
			time.Sleep(late)
		}
		before := processorTime()
		if err := call(); err != nil {
			return err
		}
		if used := processorTime() - before; w.rank < w.ranks-1 && used > late/2 {
			return fmt.Errorf("collective %d took %v of processor time in %v of waiting", i, used, late)
		}
	}
	return nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// collectives compares each with its definition; sums of these integers are exact.
func collectives[T float](w *World, n int) error {
	value := func(rank, i int) T { return T(i%13 + 100*rank) }
	sum := func(i int) (s T) {
		for r := range w.ranks {
			s += value(r, i)
		}
		return s
	}
	own, all := make([]T, n), make([]T, n*w.ranks)
	fill := func(x []T) {
		for i := range x {
			x[i] = value(w.rank, i)
		}
	}
	equal := func(what string, err error, x []T, want func(i int) T) error {
		for i, v := range x {
			if err == nil && v != want(i) {
				err = fmt.Errorf("element %d is %v, expected %v", i, v, want(i))
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	fill(own)
	errs := equal("AllReduce", w.AllReduce(own), own, sum)
	fill(own)
	errs = errors.Join(errs, equal("AllGather", w.AllGather(all, own), all,
		func(i int) T { return value(i/n, i%n) }))
	fill(all)
	errs = errors.Join(errs, equal("ReduceScatter", w.ReduceScatter(own, all), own,
		func(i int) T { return sum(w.rank*n + i) }))
	if small, ok := any(all).([]float32); ok {
		fill(all)
		got := make([]float32, len(all))
		err := w.AllToAll(got, small)
		for i, v := range got {
			if want := value(i/n, w.rank*n+i%n); err == nil && T(v) != want {
				err = fmt.Errorf("element %d is %v, expected %v", i, v, want)
			}
		}
		errs = errors.Join(errs, err)
	}
	fill(own)
	return errors.Join(errs, equal("Broadcast", w.Broadcast(own, w.ranks-1), own,
		func(i int) T { return value(w.ranks-1, i) }))
}

// signalsAsBefore checks that a nil pointer is a panic, that signals reach the program, and that an abort kills it.
func signalsAsBefore() (err error) {
	var abort sigaction
	if action(int(syscall.SIGABRT), nil, &abort); abort[0] != 0 {
		return errors.New("SIGABRT has a handler, expected the system's action")
	}
	func() {
		defer func() {
			if recover() == nil {
				err = errors.New("a nil pointer is no panic")
			}
		}()
		var none *World
		none.rank++
	}()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGTERM} {
		got := make(chan os.Signal, 1)
		signal.Notify(got, s)
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			return err
		}
		select {
		case <-got:
		case <-time.After(20 * time.Second):
			return fmt.Errorf("%v does not arrive", s)
		}
		signal.Stop(got)
	}
	return err
}

// Ranks on some machines find each other by PMI-1. MPICH documents PMI_process_mapping: (vector,(0,2,4)) are two
// machines of four ranks each, in blocks.
func TestPMI(t *testing.T) {
	for machines, want := range map[string]string{
		"a":         "(vector,(0,1,1))",
		"a a a":     "(vector,(0,1,3))",
		"a a b b":   "(vector,(0,1,2),(1,1,2))",
		"a a b c c": "(vector,(0,1,2),(1,1,1),(2,1,2))",
		"a b a b":   "(vector,(0,1,1),(1,1,1),(0,1,1),(1,1,1))",
	} {
		if got := mapping(strings.Fields(machines)); got != want {
			t.Errorf("%s: %s, want %s", machines, got, want)
		}
	}
}

// Sums are added in the order of the ranks, whatever the library is: (1 + 1e8) - 1e8 is 0 in float32, and 1 + (1e8 -
// 1e8) is 1.
func TestSumsAreInOrder(t *testing.T) {
	sum := make([]float32, 2)
	if add(sum, []float32{1, 1e8, 1e8, -1e8, -1e8, 1}); sum[0] != 0 || sum[1] != 1 {
		t.Errorf("the sums are %v, want 0 and 1", sum)
	}
}
