package sweep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/runfs"
	"vsetrain/lab/try"
)

var (
	simulations = flag.Int("sweeps", 10, "sweeps that TestSimulatedSweeps simulates")
	firstSweep  = flag.Uint64("sweep-seed", 1, "seed of the first of them; the others follow it")
	sweepTime   = flag.Duration("sweep-time", 0, "simulate sweeps for so long, in place of a number")
)

// A simulated sweep: machines with clocks up to an hour apart share a folder on slow disks; their workers are killed,
// told to stop and started again, by a seed. The workers are the real ones, on a clock and a file system of the test:
// whoever changes a file waits some time first, so that one goroutine runs at a time and the same seed gives the same
// sweep. Training is a function of settings and epoch.
type simulation struct {
	t        *testing.T
	seed     uint64
	plan     *Plan
	dir      string // what all machines see
	patient  bool   // no disk stands still for as long as a claim lasts
	mu       sync.Mutex
	lives    map[string]*life // by the folder through which it sees dir
	training map[string]*life // by trial
	trained  map[string]int   // by trial and epoch
	log      []string
	problems []string
}

// life is one process of a worker.
type life struct {
	*simulation
	machine string
	pid     int
	view    string // its name of dir
	ahead   time.Duration
	slow    time.Duration // a usual wait for the disk
	rng     *rand.Rand
	dead    bool
	ended   chan struct{} // closed when it is dead
}

func (s *simulation) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func (s *simulation) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, time.Now().Format("02 15:04:05.000000000 ")+fmt.Sprintf(format, args...))
}

// wait is what a change of a file costs the process, which may be killed meanwhile.
func (l *life) wait() {
	l.mu.Lock()
	d := time.Duration(1 + l.rng.Int64N(int64(2*l.slow)))
	if l.rng.IntN(300) == 0 {
		d = time.Duration(1 + l.rng.Int64N(int64(20*time.Second)))
		if !l.patient && l.rng.IntN(4) == 0 {
			d *= 30
		}
	}
	l.mu.Unlock()
	time.Sleep(d)
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
}

// system is the disk of a simulation.
type system struct {
	disk.Host
	*simulation
}

// change waits for the disk of whoever names a path, and does something.
func (s system) change(path string, do func() error) error {
	s.mu.Lock()
	var l *life
	for view, of := range s.lives {
		if strings.HasPrefix(path, view+string(filepath.Separator)) || path == view {
			l = of
		}
	}
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("%s is on no machine", path)
	}
	l.wait()
	return do()
}

// now gives a file the time of the file system.
func (s system) now(path string, err error) error {
	if err == nil {
		err = os.Chtimes(path, time.Now(), time.Now())
	}
	return err
}

func (s system) file(path string, open func(string) (disk.File, error)) (f disk.File, err error) {
	err = s.change(path, func() error {
		if f, err = open(path); err == nil {
			err = s.now(path, nil)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return simulatedFile{f, s}, nil
}

func (s system) Create(path string) (disk.File, error) { return s.file(path, s.Host.Create) }

func (s system) Open(path string) (disk.File, error) { return s.file(path, s.Host.Open) }

func (s system) Renew(path string, b []byte) error {
	return s.change(path, func() error {
		return disk.Renewed(path, b, func(f *os.File) error {
			return s.change(path, func() error { // the disk may stand still between the look and the change
				_, err := f.WriteAt(b, 0)
				return s.now(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), err)
			})
		})
	})
}

func (s system) Rename(from, to string) error {
	return s.change(from, func() error { return s.Host.Rename(from, to) })
}

func (s system) Link(from, to string) error {
	return s.change(from, func() error { return s.Host.Link(from, to) })
}

func (s system) Remove(path string) error {
	return s.change(path, func() error { return s.Host.Remove(path) })
}

func (s system) Mkdir(path string) error {
	return s.change(path, func() error { return s.Host.Mkdir(path) })
}

func (s system) SyncDir(dir string) error { return s.change(dir, func() error { return nil }) }

type simulatedFile struct {
	disk.File
	s system
}

func (f simulatedFile) Write(b []byte) (n int, err error) {
	err = f.s.change(f.Name(), func() error {
		n, err = f.File.Write(b)
		return errors.Join(err, f.stamp())
	})
	return n, err
}

// stamp sets the time of a file that another may have removed.
func (f simulatedFile) stamp() error {
	if err := f.s.now(f.Name(), nil); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f simulatedFile) Sync() error { return f.s.change(f.Name(), func() error { return nil }) }

// scoreOf is the recall of a trial after an epoch, and secondsOf how long that takes; some trials stop early.
func scoreOf(id string, epoch int) float64 { return float64(drawn(id, "score", epoch) % 1000) }

func secondsOf(id string, epoch int) time.Duration {
	return time.Duration(60+drawn(id, "time", epoch)%3000)*time.Second + time.Duration(drawn(id, "ns", epoch)%1e9)
}

func lastOf(id string, epochs int) int {
	for e := 1; e < epochs; e++ {
		if drawn(id, "stop", e)%12 == 0 {
			return e
		}
	}
	return epochs
}

func drawn(id, what string, epoch int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, id, what, epoch)
	x := h.Sum64()
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9 >> 7
}

// simulatedTraining is a trial that is trained.
type simulatedTraining struct {
	life         *life
	id           string
	epochs       int
	told, killed chan struct{}
	once, twice  sync.Once
	ended        chan struct{}
	code         int
	last         string
}

func (t *simulatedTraining) stop() { t.once.Do(func() { close(t.told) }) }

func (t *simulatedTraining) kill() { t.twice.Do(func() { close(t.killed) }) }

func (t *simulatedTraining) wait() (int, string, error) {
	<-t.ended
	return t.code, t.last, nil
}

func (l *life) start(_ int, job Job) (training, error) {
	t := &simulatedTraining{life: l, id: job.State.ID, epochs: job.Epochs, told: make(chan struct{}),
		killed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		t.code = t.run()
	}()
	return t, nil
}

// sleep reports whether the training goes on, and otherwise the exit code: it is told to stop when its worker is dead.
func (t *simulatedTraining) sleep(d time.Duration) (code int, on bool) {
	select {
	case <-time.After(d):
		return 0, true
	case <-t.killed:
		return -1, false
	case <-t.told:
	case <-t.life.ended:
	}
	select { // it saves its state
	case <-time.After(2*time.Second + time.Duration(drawn(t.id, "saves", t.life.pid)%1e9)):
	case <-t.killed:
	}
	return ExitInterrupted, false
}

// run trains, in the run directory that one process has at a time.
func (t *simulatedTraining) run() int {
	s := t.life.simulation
	for begin := time.Now(); ; {
		s.mu.Lock()
		holder := s.training[t.id]
		if holder == nil {
			s.training[t.id] = t.life
		}
		s.mu.Unlock()
		if holder == nil {
			break
		}
		s.mu.Lock()
		dead := holder.dead
		s.mu.Unlock()
		if s.patient && !dead {
			s.problem("%s: workers %d and %d train trial %s", time.Now(), holder.pid, t.life.pid, t.id)
			return 1
		}
		if time.Since(begin) > time.Minute { // lockPatience of the program
			return ExitLocked
		}
		if code, on := t.sleep(time.Second + 7); !on {
			return code
		}
	}
	defer func() {
		s.mu.Lock()
		delete(s.training, t.id)
		s.mu.Unlock()
	}()
	path := filepath.Join(s.dir, trialsName, t.id, runfs.MetricsName)
	for e := t.done() + 1; e <= lastOf(t.id, t.epochs); e++ {
		if code, on := t.sleep(secondsOf(t.id, e)); !on {
			return code
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err == nil {
			_, err = f.WriteString(line(t.id, e))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.last = err.Error()
			return 1
		}
		s.mu.Lock()
		s.trained[fmt.Sprint(t.id, " ", e)]++
		s.mu.Unlock()
	}
	return 0
}

// done is how many epochs the trial was trained: its checkpoint.
func (t *simulatedTraining) done() (n int) {
	t.life.mu.Lock()
	defer t.life.mu.Unlock()
	for t.life.trained[fmt.Sprint(t.id, " ", n+1)] > 0 {
		n++
	}
	return n
}

// machineOf works on the sweep in several lives, of which the last is not disturbed.
func (s *simulation) machineOf(index int, rng *rand.Rand) {
	ahead := time.Duration(rng.Int64N(int64(2*time.Hour))) - time.Hour
	slow := time.Duration(1+rng.IntN(100)) * time.Millisecond
	time.Sleep(time.Duration(1 + rng.Int64N(int64(time.Hour))))
	lives := 1 + rng.IntN(4)
	for n := range lives {
		l := &life{simulation: s, machine: fmt.Sprint("machine ", index), pid: 100*index + n + 1, ahead: ahead,
			slow: slow, rng: rand.New(rand.NewPCG(rng.Uint64(), s.seed)), ended: make(chan struct{})}
		l.view = filepath.Join(filepath.Dir(s.dir), fmt.Sprint("view", l.pid))
		if err := os.Symlink(s.dir, l.view); err != nil {
			s.problem("%v", err)
			return
		}
		s.mu.Lock()
		s.lives[l.view] = l
		s.mu.Unlock()
		if err := l.work(rng, n == lives-1); err == nil {
			return // the sweep is done
		}
		time.Sleep(time.Duration(1 + rng.Int64N(int64(30*time.Minute))))
	}
}

var errKilled = errors.New("killed")

// work is a life: until the sweep is done, or until it is told to stop, or killed.
func (l *life) work(rng *rand.Rand, undisturbed bool) error {
	limit, kill := time.Duration(1+rng.Int64N(int64(6*time.Hour))), rng.IntN(3) > 0
	plan := *l.plan // which keeps what it proposed
	// One slot: a goroutine that waits for the mutex of another, which waits for the disk, would stop the clock.
	w := &Worker{Plan: &plan, Parallel: 1, Threads: 1, Index: -1, Beat: 15 * time.Second,
		Poll: 30 * time.Second, start: l.start,
		Store: &Store{Dir: l.view, Stale: time.Minute, at: &place{l.machine, l.machine, l.pid, l.alive}},
		Now: func() time.Time {
			l.wait()
			return time.Now().Add(l.ahead)
		},
		Report: func(e Event) {
			l.note("worker %d: %s %s %d %s", l.pid, e.Kind, e.Job.State.ID, e.Job.Epochs, e.Fail.Error)
			if e.Kind == Failed {
				l.problem("trial %s failed: %s", e.Job.State.ID, e.Fail.Error)
			}
		}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := errKilled
		defer func() { ended <- err }()
		err = w.Run(ctx)
	}()
	if undisturbed {
		limit = 100 * time.Hour
	}
	select {
	case err := <-ended:
		return l.checked(err)
	case <-time.After(limit):
	}
	if undisturbed {
		l.problem("worker %d did not end in 100 hours", l.pid)
	}
	if kill || undisturbed {
		l.mu.Lock()
		l.dead = true
		close(l.ended)
		l.mu.Unlock()
		l.note("worker %d is killed", l.pid)
		cancel() // what waits for nothing that the disk tells ends too
		<-ended
		return errKilled
	}
	l.note("worker %d is told to stop", l.pid)
	cancel()
	return l.checked(<-ended)
}

// checked notes errors that no worker should end with.
func (l *life) checked(err error) error {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	if err != nil && !errors.Is(err, ErrInterrupted) {
		l.problem("worker %d: %v", l.pid, err)
	}
	return err
}

// alive reports whether a process of the machine lives.
func (l *life) alive(pid int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.lives {
		if other.machine == l.machine && other.pid == pid {
			return !other.dead
		}
	}
	return false
}

// simulateSweep runs a sweep and checks what is there with what training gives.
func simulateSweep(t *testing.T, plan *Plan, seed uint64) *simulation {
	root := t.TempDir()
	rng := rand.New(rand.NewPCG(seed, 5))
	s := &simulation{t: t, seed: seed, plan: plan, dir: filepath.Join(root, "sweep"), patient: rng.IntN(2) == 0,
		lives: map[string]*life{}, training: map[string]*life{}, trained: map[string]int{}}
	try.Do(t, os.MkdirAll(filepath.Join(s.dir, trialsName), 0o777))
	synctest.Test(t, func(t *testing.T) {
		defer disk.Use(system{simulation: s})()
		var all sync.WaitGroup
		for i := range 2 + rng.IntN(3) {
			own := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
			all.Go(func() { s.machineOf(i+1, own) })
		}
		all.Wait()
		synctest.Wait()
	})
	for _, problem := range amiss(s.plan, &Store{Dir: s.dir, Stale: time.Minute}) {
		s.problem("%s", problem)
	}
	for trial, n := range s.trained {
		if n != 1 {
			s.problem("trial and epoch %s were trained %d times", trial, n)
		}
	}
	return s
}

// amiss lists what a sweep that is done lacks, and what differs from what training gives.
func amiss(plan *Plan, store *Store) (list []string) {
	problem := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	states, err := store.Read(plan.Trials)
	if err != nil {
		problem("%v", err)
		return list
	}
	if job, _ := plan.Def.next(states); job != nil {
		problem("trial %s is lost: nobody trained it to epoch %d", job.State.ID, job.Epochs)
	}
	for _, st := range states {
		if st.Failed != nil {
			problem("trial %s failed: %s", st.ID, st.Failed.Error)
		}
		most := 0
		for epochs, r := range st.Results {
			best := 0.0
			for e := 1; e <= lastOf(st.ID, epochs); e++ {
				best = max(best, scoreOf(st.ID, e))
			}
			if most = max(most, epochs); r.Score != best {
				problem("trial %s has a score of %v after %d epochs, expected %v", st.ID, r.Score, epochs, best)
			}
		}
		lines, epoch := 0, 0.0
		if epoch, err = position(st.Dir); err == nil {
			_, err = runfs.ReadLog(filepath.Join(st.Dir, runfs.MetricsName), 0, func([]byte, int) (bool, error) {
				lines++
				return true, nil
			})
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if want := lastOf(st.ID, most); most > 0 && (err != nil || lines != want || epoch != float64(want)) {
			problem("trial %s has %d lines up to epoch %v, expected %d: %v", st.ID, lines, epoch, want, err)
		}
	}
	return list
}

// line is what an epoch adds to the log of a trial.
func line(id string, epoch int) string {
	return fmt.Sprintf("{\"kind\":\"val\",\"epoch\":%d,\"m_recall\":%g}\n", epoch, scoreOf(id, epoch))
}

const byGrid = "set: {train.epochs: 4}\naxes: [{param: train.batch, values: [16, 32, 64]}]\nseeds: [1, 2]\n"

// Sweeps on machines whose clocks, disks and lives are bad lose no trial, train none twice, and merge none: by grid and
// by asha.
func TestSimulatedSweeps(t *testing.T) {
	var plans []*Plan
	for _, text := range []string{byGrid, "method: asha\ntrials: 6\nasha: {rungs: [1, 2, 4], factor: 2}\n" +
		"axes: [{param: train.batch, values: [8, 16, 32, 64, 96, 128]}]\n"} {
		p, _ := planOf(t, text)
		plans = append(plans, p)
	}
	begin, tried, failed := time.Now(), 0, 0
	for seed := *firstSweep; ; seed++ {
		if *sweepTime > 0 && time.Since(begin) > *sweepTime || *sweepTime == 0 && tried == *simulations {
			break
		}
		tried++
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := simulateSweep(t, plans[seed%2], seed)
			if len(s.problems) == 0 {
				return
			}
			failed++
			t.Errorf("%s\n%s\nagain: go test ./internal/apps/sweep -run TestSimulatedSweeps -sweeps 1 -sweep-seed %d",
				strings.Join(s.problems, "\n"), strings.Join(s.log[max(0, len(s.log)-30):], "\n"), seed)
		})
		if failed == 5 {
			break
		}
	}
	t.Logf("campaign: simulated sweeps: %d found, %[1]d tried, %d failed", tried, failed)
}

// The same seed gives the same sweep, event by event.
func TestSimulatedSweepsAreRepeatable(t *testing.T) {
	p, _ := planOf(t, byGrid)
	for seed := range uint64(3) {
		first, second := simulateSweep(t, p, seed), simulateSweep(t, p, seed)
		if a, b := strings.Join(first.log, "\n"), strings.Join(second.log, "\n"); a != b || len(first.log) < 12 {
			t.Fatalf("seed %d:\n%s\n\nand then\n%s", seed, a, b)
		}
	}
}
