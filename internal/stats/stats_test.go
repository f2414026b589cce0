package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s is %.15g, want %.15g", what, got, want)
	}
}

// By hand: of the six pairs of pairs four are concordant, one is tied in x and one in y; three values on both sides.
//
//	tau-b = 4 / sqrt(5 5), tau-c = 2 4 3 / (16 2); ranks 1 2.5 2.5 4 and 1.5 1.5 3 4 correlate by 3.75 / 4.5
//
// The other numbers are scipy 1.17's (kendalltau, spearmanr).
func TestRankCorrelations(t *testing.T) {
	for _, c := range []struct {
		x, y    []float64
		b, c, s float64
	}{
		{[]float64{1, 2, 2, 3}, []float64{1, 1, 2, 3}, 0.8, 0.75, 3.75 / 4.5},
		{[]float64{3, 1, 2, 2}, []float64{3, 1, 1, 2}, 0.8, 0.75, 3.75 / 4.5},
		{[]float64{1, 2, 3}, []float64{30, 20, 10}, -1, -1, -1},
		{[]float64{0, 1}, []float64{5, 7}, 1, 1, 1},
		{[]float64{1, 2, 2, 3, 3, 3, 4}, []float64{2, 1, 3, 3, 3, 5, 4}, 0.6288281455225324, 0.5986394557823129,
			0.757317246446102},
	} {
		b, tc, err := Kendall(c.x, c.y)
		try.Do(t, err)
		s := try.Get(Spearman(c.x, c.y))(t)
		near(t, "tau-b", b, c.b, 1e-14)
		near(t, "tau-c", tc, c.c, 1e-14)
		near(t, "Spearman", s, c.s, 1e-14)
	}
}

// Counting every pair of pairs gives the same.
func TestKendallCountsPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 5 + rng.IntN(60)
		x, y := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i], y[i] = float64(rng.IntN(7)), float64(rng.IntN(4))
		}
		x[0], x[1], y[0], y[1] = 0, 1, 0, 1
		var surplus, onlyX, onlyY float64
		for i := range x {
			for j := range i {
				dx, dy := x[i]-x[j], y[i]-y[j]
				switch {
				case dx*dy > 0:
					surplus++
				case dx*dy < 0:
					surplus--
				}
				if dx != 0 {
					onlyX++
				}
				if dy != 0 {
					onlyY++
				}
			}
		}
		distinct := func(v []float64) int { return len(slices.Compact(slices.Sorted(slices.Values(v)))) }
		m := float64(min(distinct(x), distinct(y)))
		b, c, err := Kendall(x, y)
		try.Do(t, err)
		near(t, "tau-b", b, surplus/math.Sqrt(onlyX*onlyY), 1e-12)
		near(t, "tau-c", c, 2*surplus*m/(float64(n*n)*(m-1)), 1e-12)
	}
}

func TestBadCorrelations(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want string
	}{
		{[]float64{1, 2}, []float64{1}, "2 values and 1 values"},
		{[]float64{1, 2, 3}, []float64{2, 2, 2}, "at least two different values"},
		{nil, nil, "at least two different values"},
		{[]float64{1, math.NaN()}, []float64{1, 2}, "value 1 is NaN"},
		{[]float64{1, 2}, []float64{math.Inf(1), 2}, "value 0 is +Inf"},
	} {
		_, _, err := Kendall(c.x, c.y)
		try.Fails(t, err, c.want)
		try.Refuses(Spearman(c.x, c.y))(t, c.want)
	}
}

// Figures of scipy 1.17 (ttest_ind with equal_var=False, ttest_1samp and their confidence_interval; equivalence by two
// of them with one side each).
func TestStudent(t *testing.T) {
	w := try.Get(Welch([]float64{67.1, 68.4, 66.9, 67.7}, []float64{65.2, 66.8, 66.1}, 0.95))(t)
	o := try.Get(OneSample([]float64{-1.5, -2, -0.5}, 0.95))(t)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"t", w.T, 2.602965272323807}, {"df", w.DF, 3.9473029648403646}, {"p", w.P, 0.06066147383329752},
		{"low", w.Low, -0.10782731492564612}, {"high", w.High, 3.0911606482589944}, {"difference", w.Difference,
			67.525 - 198.1/3},
		{"t of one", o.T, -3.023715784073818}, {"p of one", o.P, 0.09417837268432339}, {"low of one", o.Low,
			-3.2306248501317127},
		{"high of one", o.High, 0.5639581834650462},
		{"equivalence within 2", w.Equivalence(2), 0.2128973456988608},
		{"equivalence within 4", w.Equivalence(4), 0.006128733009222845},
		{"equivalence of one within 1", o.Equivalence(1), 0.7357022603955159},
		{"equivalence of one within 4", o.Equivalence(4), 0.013135504439852336},
	} {
		near(t, c.what, c.got, c.want, 1e-8)
	}
}

// Figures of statsmodels 0.15 (multipletests with method="holm").
func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.04, 0.049, 0.0001, 0.2, 0.03}, []float64{0.12, 0.12, 0.0005, 0.2, 0.12}},
		{[]float64{0.5, 0.9, 0.6}, []float64{1, 1, 1}},
		{[]float64{0.02}, []float64{0.02}},
		{nil, nil},
	} {
		got := Holm(c.p)
		for i := range c.p {
			near(t, "p by Holm", got[i], c.want[i], 1e-15)
		}
	}
}

func TestFewerThanTwoSeeds(t *testing.T) {
	if _, err := Welch([]float64{1}, []float64{1, 2}, 0.95); !errors.Is(err, ErrOneValue) {
		t.Errorf("one value against two: %v", err)
	}
	if _, err := OneSample([]float64{1}, 0.95); !errors.Is(err, ErrOneValue) {
		t.Errorf("one difference: %v", err)
	}
	if _, err := Welch([]float64{1, 1}, []float64{2, 2}, 0.95); !errors.Is(err, ErrNoSpread) {
		t.Errorf("equal values: %v", err)
	}
}

// Two units with outcomes 0 and 1: the sum of a bootstrap sample is 0, 1 or 2 with probability 1/4, 1/2, 1/4. A second
// column is twice the first, because a unit keeps its outcomes together.
func TestBootstrapDrawsUnits(t *testing.T) {
	const resamples = 20000
	sums := try.Get(Units{2, []int32{0, 0, 1, 2}}.Bootstrap(nil, 7, resamples))(t)
	var seen [3]float64
	for r := range resamples {
		if sums[2*r+1] != 2*sums[2*r] {
			t.Fatalf("resample %d: sums %v; a unit was torn", r, sums[2*r:2*r+2])
		}
		seen[sums[2*r]]++
	}
	for s, want := range []float64{0.25, 0.5, 0.25} {
		near(t, "share", seen[s]/resamples, want, 0.012) // three standard errors
	}
}

// By hand: four differences of +1 keep |sum| = 4 in two of sixteen sign patterns; of +2, +1, +1, -1 the sum is 3, which
// eight patterns reach: |sum| is 5 twice and 3 six times.
func TestSignFlipsByHand(t *testing.T) {
	const resamples = 100000
	p, err := Units{2, []int32{1, 2, 1, 1, 1, 1, 1, -1}}.SignFlips(nil, 3, resamples)
	try.Do(t, err)
	near(t, "p of +1 +1 +1 +1", p[0], 2.0/16, 0.0032) // three standard errors
	near(t, "p of +2 +1 +1 -1", p[1], 8.0/16, 0.0048)
	p, err = Units{1, make([]int32, 130)}.SignFlips(nil, 3, 100)
	if err != nil || p[0] != 1 {
		t.Errorf("p of equal systems is %v (%v), want 1", p, err)
	}
	ones := make([]int32, 130)
	for i := range ones {
		ones[i] = 1
	}
	if p, err = (Units{1, ones}).SignFlips(nil, 3, 999); err != nil || p[0] != 0.001 {
		t.Errorf("p of 130 equal differences is %v (%v), want 1 in 1000", p, err)
	}
}

func TestResamplingIgnoresThreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	u := Units{3, make([]int32, 3*77)}
	for i := range u.Values {
		u.Values[i] = int32(rng.IntN(5)) - 2
	}
	sums := try.Get(u.Bootstrap(nil, 11, 500))(t)
	p := try.Get(u.SignFlips(nil, 11, 500))(t)
	for _, threads := range []int{1, 2, 3} {
		pool := par.New(threads)
		s, err := u.Bootstrap(pool, 11, 500)
		if err != nil || !slices.Equal(s, sums) {
			t.Errorf("%d threads: other bootstrap sums (%v)", threads, err)
		}
		q, err := u.SignFlips(pool, 11, 500)
		if err != nil || !slices.Equal(q, p) {
			t.Errorf("%d threads: p-values %v, want %v (%v)", threads, q, p, err)
		}
		pool.Close()
	}
	if other, _ := u.Bootstrap(nil, 12, 500); slices.Equal(other, sums) {
		t.Error("another seed draws the same samples")
	}
	first, err := u.Bootstrap(nil, 11, 100)
	if err != nil || !slices.Equal(first, sums[:300]) {
		t.Error("the first resamples depend on how many there are")
	}
}

// NumPy's percentile of 1, 2, 3, 4 at 10 and 90 percent: 1.3 and 3.7.
func TestPercentile(t *testing.T) {
	i := Percentile([]float64{3, 1, 4, 2}, 0.8)
	near(t, "low", i.Low, 1.3, 1e-12)
	near(t, "high", i.High, 3.7, 1e-12)
	if i := Percentile([]float64{5}, 0.95); i != (Interval{5, 5}) {
		t.Errorf("interval of one value: %v", i)
	}
}

func TestBadResampling(t *testing.T) {
	for _, c := range []struct {
		u         Units
		resamples int
		want      string
	}{
		{Units{2, nil}, 10, "0 values are not one or more units of 2"},
		{Units{2, []int32{1, 2, 3}}, 10, "3 values are not"},
		{Units{1, []int32{1}}, 0, "at least one resample"},
	} {
		try.Refuses(c.u.Bootstrap(nil, 1, c.resamples))(t, c.want)
		try.Refuses(c.u.SignFlips(nil, 1, c.resamples))(t, c.want)
	}
}

// Sums of packed values are the same as the sums of the values, whatever their signs and however many fit a word.
func TestPackedSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for trial := range 100 {
		n, w := 1+rng.IntN(40), 1+rng.IntN(15)
		spread := []int{1, 2, 31, 1 << 20, math.MaxInt32}[trial%5]
		u := Units{w, make([]int32, n*w)}
		for i := range u.Values {
			u.Values[i] = int32(rng.IntN(spread) - rng.IntN(spread))
		}
		p := newPacked(u)
		sum, got, want := make([]uint64, p.size), make([]int64, w), make([]int64, w)
		for range n {
			unit := rng.IntN(n)
			p.add(sum, unit)
			for c := range want {
				want[c] += int64(u.Values[unit*w+c])
			}
		}
		if p.unpack(got, sum, n); !slices.Equal(got, want) {
			t.Fatalf("trial %d: sums %v, want %v", trial, got, want)
		}
	}
}

// Equal losses, one loss and none are clean; of two losses the smaller is.
func TestMixtureOfLittle(t *testing.T) {
	for _, losses := range [][]float64{nil, {3}, {2, 2, 2}} {
		if m := FitMixture(losses); slices.Contains(m.Clean, false) || len(m.Clean) != len(losses) {
			t.Errorf("%v: %v", losses, m.Clean)
		}
	}
	m := FitMixture([]float64{0, 1})
	if !m.Clean[0] || m.Clean[1] {
		t.Errorf("two losses: %+v", m)
	}
}
