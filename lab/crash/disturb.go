package crash

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/disk"
)

// How long a test that calls Disturb tries disturbances. scripts/campaign.sh sets more time and several processes.
var (
	crashTime = flag.Duration("crash-time", 300*time.Millisecond, "how long a test tries power failures; 0 tries none")
	faultTime = flag.Duration("fault-time", 300*time.Millisecond, "how long a test tries pairs of faults; 0 tries none")
	crashSeed = flag.Uint64("crash-seed", 1, "seed of the power failures and faults that are drawn")
	shard     = flag.Int("crash-shard", 0, "which part of them this process tries, from 0")
	shards    = flag.Int("crash-shards", 1, "how many processes try a part each")
)

// Program is a program that changes the files of a folder. Its functions are called one after the other.
type Program struct {
	Dir   string       // the folder; its content when Disturb is called is the input of Run
	Run   func() error // the program; it returns the error that it reports
	Again func() error // what a user does after a disturbed Run; it must succeed
	// Outputs are files below Dir that Again must leave as an undisturbed Run does. If all of them exist beforehand, a
	// disturbed Run leaves all old or all new, except for the Journal, to which records are appended.
	Outputs []string
	Journal string
	Left    func() error // checks for damage after a disturbed Run that left all Outputs; may be nil
	Done    func() error // checks everything other than Outputs after a successful Run; may be nil

	old, wanted map[string][]byte
	ended       int // number of calls when undisturbed
	states      []State
	start       State
	pairs       [][2]fault // pairs found so far, the second without a kind
}

// Outcome counts the disturbances that were tried.
type Outcome struct {
	Found, Tried, Failed int
	Errors               []error // the first few broken promises
}

// maxErrors is the number of errors that are kept.
const maxErrors = 5

// add counts one disturbance.
func (o *Outcome) add(what fmt.Stringer, err error) {
	o.Tried++
	if err == nil {
		return
	}
	if o.Failed++; o.Failed <= maxErrors {
		o.Errors = append(o.Errors, fmt.Errorf("%s: %w", what, err))
	}
}

// draw is the share of the disturbances that one process tries.
type draw struct {
	seed          uint64
	shard, shards int
	until         time.Time
}

// least is the number of disturbances of each kind that are tried, however slow the machine is.
const least = 2

// enough reports whether the time is up.
func (d draw) enough(o *Outcome) bool { return o.Tried >= least && time.Now().After(d.until) }

// perm orders n items by the seed, and returns those of this process.
func (d draw) perm(n int, stream uint64) (list []int) {
	for k, i := range rand.New(rand.NewPCG(d.seed, stream)).Perm(n) {
		if k%d.shards == d.shard {
			list = append(list, i)
		}
	}
	return list
}

// Disturb runs a program undisturbed, then disturbs it for its share of the time of the test; programs is the number of
// programs that are still to be disturbed. The outcome is logged for scripts/campaign.sh.
func Disturb(t *testing.T, name string, programs int, p *Program) {
	t.Helper()
	if err := p.begin(); err != nil {
		t.Fatal(err)
	}
	// part gives one kind of disturbance a share of the remaining time.
	part := func(total *time.Duration, shares float64, kind string, try func(draw) (Outcome, error)) {
		if *total == 0 {
			return
		}
		began := time.Now()
		o, err := try(draw{*crashSeed, *shard, *shards, began.Add(time.Duration(float64(*total) * shares))})
		if err != nil {
			t.Fatal(err)
		}
		*total = max(time.Millisecond, *total-time.Since(began))
		for _, err := range o.Errors {
			t.Errorf("%s: %v", kind, err)
		}
		t.Logf("campaign: %s: %s: %d found, %d tried, %d failed", kind, name, o.Found, o.Tried, o.Failed)
	}
	all := float64(programs)
	part(crashTime, 0.5/all, "power failures", p.powerFailures)
	part(crashTime, 0.5/(all-0.5), "power failures in a row", p.secondFailures)
	part(faultTime, 0.5/all, "faults", p.singleFaults)
	part(faultTime, 0.5/(all-0.5), "pairs of faults", p.faultPairs)
}

// begin records an undisturbed Run, with the files before and after it.
func (p *Program) begin() error {
	p.old = p.read()
	r, err := p.record(p.Run)
	if err != nil {
		return err
	}
	p.wanted, p.start, p.ended = p.read(), r.Start(), r.Ops()
	for _, name := range p.Outputs {
		if p.wanted[name] == nil {
			return fmt.Errorf("%s was not written", name)
		}
	}
	if p.states = slices.Collect(r.States); len(p.states) == 0 {
		return errors.New("the program changes no file")
	}
	return nil
}

// record records what a function does to Dir.
func (p *Program) record(do func() error) (*Recorder, error) {
	r, err := Record(p.Dir)
	if err != nil {
		return nil, err
	}
	defer disk.Use(r)()
	return r, do()
}

// read returns the outputs that exist.
func (p *Program) read() map[string][]byte {
	all := map[string][]byte{}
	for _, name := range p.Outputs {
		if b, err := os.ReadFile(filepath.Join(p.Dir, name)); err == nil {
			all[name] = b
		}
	}
	return all
}

// check checks the folder after a disturbed Run. If ended is set, Run succeeded and must have done everything.
func (p *Program) check(ended bool) error {
	now := p.read()
	if len(now) == len(p.wanted) && len(now) > 0 {
		if !p.are(now, p.old) && !p.are(now, p.wanted) {
			return fmt.Errorf("%s are neither all old nor all new", p.Outputs)
		}
		if p.Left != nil {
			if err := p.Left(); err != nil {
				return fmt.Errorf("before it is repeated: %w", err)
			}
		}
	}
	if ended {
		if err := p.done(); err != nil {
			return fmt.Errorf("after a successful run: %w", err)
		}
		return nil
	}
	if err := p.Again(); err != nil {
		return err
	}
	return p.done()
}

// are reports whether two sets of files are equal, except for the journal.
func (p *Program) are(now, then map[string][]byte) bool {
	for name, b := range now {
		if was, ok := then[name]; name != p.Journal && (!ok || !bytes.Equal(b, was)) {
			return false
		}
	}
	return true
}

// done checks what must be as an undisturbed Run leaves it.
func (p *Program) done() error {
	now := p.read()
	for name, want := range p.wanted {
		if !bytes.Equal(now[name], want) {
			return fmt.Errorf("%s is not what the undisturbed program left", name)
		}
	}
	if p.Done == nil {
		return nil
	}
	return p.Done()
}

// powerFailures tries the states that a power failure during Run may leave.
func (p *Program) powerFailures(d draw) (o Outcome, err error) {
	all := d.perm(len(p.states), 1)
	o.Found = len(all)
	for _, i := range all {
		if d.enough(&o) {
			break
		}
		s := p.states[i]
		if err := s.Write(p.Dir); err != nil {
			return o, err
		}
		o.add(s, p.check(s.After == p.ended))
	}
	return o, nil
}

// twice is a power failure, followed by another while the program runs again.
type twice struct{ first, second State }

func (t twice) String() string { return fmt.Sprintf("%s; then %s", t.first, t.second) }

// secondFailures tries a few states that a power failure during Again may leave after one during Run.
func (p *Program) secondFailures(d draw) (o Outcome, err error) {
	const each = 12
	rng := rand.New(rand.NewPCG(d.seed, 3+uint64(d.shard)))
	for !d.enough(&o) {
		first := p.states[rng.IntN(len(p.states))]
		if err := first.Write(p.Dir); err != nil {
			return o, err
		}
		r, err := p.record(p.Again)
		if err != nil {
			o.add(first, err)
			continue
		}
		states, ended := slices.Collect(r.States), r.Ops()
		o.Found += len(states)
		for _, i := range rng.Perm(len(states))[:min(each, len(states))] {
			if d.enough(&o) {
				break
			}
			if err := states[i].Write(p.Dir); err != nil {
				return o, err
			}
			o.add(twice{first, states[i]}, p.check(states[i].After == ended))
		}
	}
	return o, nil
}

// fault is the number of a call, from 0, and how it fails.
type fault struct {
	at   int
	kind string
}

// faults are the one or two faults of a run.
type faults struct {
	list []fault
	err  error // error of the program
}

func (f faults) String() string {
	var all []string
	for _, one := range f.list {
		all = append(all, fmt.Sprintf("%s of call %d", one.kind, one.at))
	}
	return fmt.Sprintf("%s, and the program says %v", strings.Join(all, " and "), f.err)
}

// ErrSilent is the error of a Run that failed without reporting it.
var ErrSilent = errors.New("the program failed without a word")

// fail makes calls of Run fail, and returns the total number of calls.
func (p *Program) fail(o *Outcome, list ...fault) (calls int, err error) {
	if err := p.start.Write(p.Dir); err != nil {
		return 0, err
	}
	f := &Faults{At: map[int]string{}}
	for _, one := range list {
		f.At[one.at] = one.kind
	}
	restore := disk.Use(f)
	said := p.Run()
	restore()
	bad := p.check(said == nil)
	if errors.Is(said, ErrSilent) {
		bad = said
	}
	o.add(faults{list, said}, bad)
	return f.calls, nil
}

// singleFaults makes each call of Run fail, and records the calls after it: the second faults of its pairs.
func (p *Program) singleFaults(d draw) (o Outcome, err error) {
	const window = 60 // calls: within the same save, validation, claim or set
	kinds := len(faultKinds)
	all := d.perm(p.ended*kinds, 2)
	o.Found = len(all)
	for _, i := range all {
		if d.enough(&o) {
			break
		}
		first := fault{i / kinds, faultKinds[i%kinds]}
		calls, err := p.fail(&o, first)
		if err != nil {
			return o, err
		}
		for then := first.at + 1; first.kind != Kill && then < min(calls, first.at+window); then++ {
			p.pairs = append(p.pairs, [2]fault{first, {at: then}})
		}
	}
	return o, nil
}

// faultPairs makes two calls of Run fail. The second is one that is made even though the first has failed.
func (p *Program) faultPairs(d draw) (o Outcome, err error) {
	kinds := len(faultKinds)
	o.Found = len(p.pairs) * kinds
	for _, i := range rand.New(rand.NewPCG(d.seed, 3)).Perm(o.Found) {
		if d.enough(&o) {
			break
		}
		pair := p.pairs[i/kinds]
		pair[1].kind = faultKinds[i%kinds]
		if _, err := p.fail(&o, pair[:]...); err != nil {
			return o, err
		}
	}
	return o, nil
}
