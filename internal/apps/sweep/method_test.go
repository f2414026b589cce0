package sweep

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"vsetrain/internal/run/records"
)

// simulate works on a plan without training: the score of a trial is a function of its point and the epochs. It returns
// the jobs.
func simulate(t *testing.T, p *Plan, score func(Point, int) float64) (jobs []string, states []*State) {
	t.Helper()
	d := p.Def
	var trials []Trial
	kept := map[string]*State{}
	s := &Store{Dir: t.TempDir(), Stale: time.Minute}
	for range 10000 {
		var err error
		if trials, err = p.trials(s); err != nil {
			t.Fatal(err)
		}
		states = nil
		for _, tr := range trials {
			if kept[tr.ID] == nil {
				kept[tr.ID] = &State{Trial: tr, Results: map[int]Result{}}
			}
			states = append(states, kept[tr.ID])
		}
		job, wait := d.next(states)
		if wait {
			t.Fatal("waits for nobody")
		}
		if job == nil {
			if d.Method == TPE && len(groups(states)) < p.Points {
				if err := p.propose(s, states); errors.Is(err, errExhausted) {
					return jobs, states
				} else if err != nil {
					t.Fatal(err)
				}
				continue
			}
			return jobs, states
		}
		job.State.Target = job.Epochs
		x := score(job.State.Point, job.Epochs)
		job.State.Results[job.Epochs] = Result{Epochs: job.Epochs, Score: x,
			Best: records.ValidationRecord{Measured: records.Measured{MRecall: x}}}
		jobs = append(jobs, job.State.Point.String())
	}
	t.Fatal("no end")
	return nil, nil
}

// Successive halving trains the best third of a rung on, ends with the best point, and spends a fraction of the epochs.
func TestASHA(t *testing.T) {
	p, _ := planOf(t, `
method: asha
trials: 27
asha: {rungs: [1, 3, 9], factor: 3}
axes: [{param: optim.lr, log_range: {from: 1e-4, to: 1e-1}}]
`)
	quality := func(pt Point, epochs int) float64 { // best at 1e-2
		return 50 - math.Abs(math.Log10(pt[0].Value.Number)+2)*10 + float64(epochs)
	}
	jobs, states := simulate(t, p, quality)
	at := map[int]int{}
	var top []float64
	for _, s := range states {
		at[s.Target]++
		top = append(top, quality(s.Point, 9))
	}
	slices.Sort(top)
	best := 0.0
	for _, s := range states {
		if s.Target == 9 {
			best = max(best, s.Results[9].Score)
		}
		if len(s.Results) != map[int]int{1: 1, 3: 2, 9: 3}[s.Target] {
			t.Errorf("%s to %d epochs has %d results", s.Point, s.Target, len(s.Results))
		}
	}
	if best != top[26] {
		t.Errorf("the best point scores %v, the best that went to the end %v", top[26], best)
	}
	// A point that was among the best when it was looked at continues, though better ones come later: at least 9 and 3.
	if n := at[3] + at[9]; n < 9 || n > 15 || at[9] < 3 || at[9] > 7 || at[1]+n != 27 {
		t.Errorf("points by last rung: %v", at)
	}
	again, _ := simulate(t, p, quality)
	if !slices.Equal(jobs, again) {
		t.Error("the same results give other jobs")
	}
}

// Seeds of a point go together: a rung counts when all are done, and a failed seed takes the point out.
func TestASHASeeds(t *testing.T) {
	p, _ := planOf(t, "method: asha\ntrials: 4\nasha: {rungs: [1, 2], factor: 2}\nseeds: [1, 2]\naxes: [{param: "+
		"optim.lr, log_range: {from: 1e-4, to: 1e-1}}]\n")
	states := make([]*State, len(p.Trials))
	for i, tr := range p.Trials {
		states[i] = &State{Trial: tr, Results: map[int]Result{}}
	}
	finish := func(i, epochs int, score float64) {
		states[i].Target = epochs
		states[i].Results[epochs] = Result{Epochs: epochs, Score: score}
	}
	expect := func(trial, epochs int) {
		t.Helper()
		job, wait := p.Def.next(states)
		if trial < 0 {
			if job != nil {
				t.Fatalf("next is trial %s to %d", job.State.ID, job.Epochs)
			}
			return
		}
		if job == nil || job.State != states[trial] || job.Epochs != epochs {
			t.Fatalf("next is %+v (wait %v), want trial %d to %d", job, wait, trial, epochs)
		}
	}
	expect(0, 1)
	finish(0, 1, 10)
	expect(1, 1)
	finish(1, 1, 90) // mean 50
	expect(2, 1)     // one point is not two: nobody continues
	finish(2, 1, 60)
	states[3].Claim, states[3].Target = &Claim{}, 1
	expect(4, 1) // another works on the second seed
	finish(4, 1, 1)
	finish(5, 1, 1) // two points are done: the better continues
	expect(0, 2)
	states[3].Claim = nil
	expect(3, 1) // begun and given up: before anything new
	finish(3, 1, 60)
	expect(2, 2) // mean 60 is better than 50
	states[2].Failed = &Failure{}
	expect(6, 1) // one of three continues, and that one failed
	finish(6, 1, 2)
	finish(7, 1, 2)
	expect(0, 2) // two of four: 60 (failed) and 50
	finish(0, 2, 10)
	expect(1, 2)
	finish(1, 2, 10)
	expect(-1, 0)
	// Another has written a result and not given up its claim yet: what comes next is open.
	states[7].Claim, states[7].Results[1] = &Claim{}, Result{Epochs: 1, Score: 99}
	finish(6, 1, 99)
	if job, wait := p.Def.next(states); job != nil || !wait {
		t.Errorf("next is %+v, wait %v", job, wait)
	}
	states[7].Claim = nil
	expect(6, 2)
}

// TPE finds the valley of a smooth function better than random search with as many points, and proposes the same after
// the same results.
func TestTPE(t *testing.T) {
	text := `
method: tpe
trials: 30
axes:
  - {param: optim.lr, log_range: {from: 1e-5, to: 1}}
  - {param: loss.margin, range: {from: 0, to: 1}}
  - {param: loss.name, choices: [lsh, lmh, luwm]}
`
	quality := func(pt Point, _ int) float64 {
		x := math.Log10(pt[0].Value.Number)/5 + 0.4 // 0 at 1e-2
		y := pt[1].Value.Number - 0.7
		bonus := 0.0
		if pt.Text("loss.name") == "lmh" {
			bonus = 0.3
		}
		return bonus - x*x*4 - y*y*4
	}
	ends := 0
	for _, seed := range []string{"1", "2", "3"} {
		p, _ := planOf(t, text+"seed: "+seed+"\n")
		jobs, states := simulate(t, p, quality)
		again, _ := simulate(t, p, quality)
		if !slices.Equal(jobs, again) || len(jobs) != 30 {
			t.Fatalf("%d jobs; the same results give other points", len(jobs))
		}
		mean := func(s []*State) (m float64) {
			for _, x := range s {
				m += x.Results[30].Score / float64(len(s))
			}
			return m
		}
		if first, last := mean(states[:p.Def.Startup]), mean(states[20:]); last > first+0.2 {
			ends++
		}
	}
	if ends < 3 {
		t.Errorf("with %d of 3 seeds the last points are clearly better than the random ones", ends)
	}
}

// The densities of TPE are densities: they integrate to one.
func TestDensity(t *testing.T) {
	p, _ := planOf(t, "method: tpe\ntrials: 9\naxes: [{param: loss.margin, range: {from: 0, to: 1}}, {param: "+
		"loss.name, choices: [lsh, lmh, luwm]}]\n")
	var seen []observation
	for i := range 9 {
		seen = append(seen, observation{p.Def.draw(i, 0), 0})
	}
	e := p.Def.Axes[0].density(0, seen)
	sum := 0.0
	const n = 2000
	for i := range n {
		sum += e.at(numberSetting(&p.Def.Axes[0], (float64(i)+0.5)/n)) / n
	}
	if math.Abs(sum-1) > 1e-3 {
		t.Errorf("the density of an interval integrates to %v", sum)
	}
	e = p.Def.Axes[1].density(1, seen)
	sum = 0
	for _, v := range p.Def.Axes[1].Values {
		sum += e.at(v)
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("the density of choices sums to %v", sum)
	}
}
