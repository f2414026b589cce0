package stats

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// A made-up world: images of different difficulty, each with one query of its own and five captions, answered by two
// systems that find the same images hard. The captions of an image share a draw, so that queries are not independent,
// images are.
type world struct{ gain float64 }

// differences draws, for each of n images, how many more of its six queries system A answers than B: each query of an
// image of difficulty d is answered by B with probability p(d) and by A with p(d - gain).
func (w world) differences(rng *rand.Rand, n int) Units {
	u := Units{1, make([]int32, n)}
	for i := range u.Values {
		d, moodA, moodB := rng.NormFloat64(), 0.8*rng.NormFloat64(), 0.8*rng.NormFloat64()
		for range 6 {
			u.Values[i] += answered(rng, d+moodA-w.gain) - answered(rng, d+moodB)
		}
	}
	return u
}

func answered(rng *rand.Rand, difficulty float64) int32 {
	if rng.Float64() < 1/(1+math.Exp(difficulty)) {
		return 1
	}
	return 0
}

// truth is the expected difference of an image, 6 (E p(d + mood - gain) - 1/2), where d + mood is normal with variance
// 1.64: by the trapezoidal rule.
func (w world) truth() float64 {
	const step, sd = 1e-3, 1.2806248474865697 // sqrt(1 + 0.64)
	sum := 0.0
	for x := -9.0; x <= 9; x += step {
		sum += math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) / (1 + math.Exp(sd*x-w.gain)) * step
	}
	return 6 * (sum - 0.5)
}

// worlds returns the number of worlds and their sizes: few small ones in the suite, as many as VSETRAIN_WORLDS says in
// make test-long.
func worlds(t *testing.T) (n, images, resamples int) {
	t.Helper()
	text := os.Getenv("VSETRAIN_WORLDS")
	if text == "" {
		return 400, 300, 400
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		t.Fatalf("VSETRAIN_WORLDS=%s: expected a whole number of at least 1000", text)
	}
	return n, 1000, 2000
}

// The 95 percent interval of the difference covers the truth in 93 to 97 percent of worlds.
func TestBootstrapCoverage(t *testing.T) {
	n, images, resamples := worlds(t)
	w := world{gain: 0.15}
	truth := w.truth()
	pool := par.New(0)
	defer pool.Close()
	covered := 0
	rng := rand.New(rand.NewPCG(9, 1))
	for i := range n {
		sums := try.Get(w.differences(rng, images).Bootstrap(pool, uint64(i), resamples))(t)
		means := make([]float64, len(sums))
		for r, s := range sums {
			means[r] = float64(s) / float64(images)
		}
		if c := Percentile(means, 0.95); c.Low <= truth && truth <= c.High {
			covered++
		}
	}
	share := float64(covered) / float64(n)
	t.Logf("the 95 %% interval covers the truth, %.4f more answered queries an image, in %.1f %% of %d worlds of %d "+
		"images", truth, 100*share, n, images)
	if share < 0.93 || share > 0.97 {
		t.Errorf("coverage %.3f, want 0.93 to 0.97", share)
	}
}

// Where the systems do not differ, p-values are uniform: their distribution function stays within Kolmogorov's bound,
// 1.63 / sqrt(worlds) at 1 percent, and 5 percent of them are below 0.05.
func TestPermutationPValuesAreUniform(t *testing.T) {
	n, images, resamples := worlds(t)
	pool := par.New(0)
	defer pool.Close()
	rng := rand.New(rand.NewPCG(9, 2))
	var ps []float64
	for i := range n {
		p := try.Get(world{}.differences(rng, images).SignFlips(pool, uint64(i), resamples))(t)
		ps = append(ps, p[0])
	}
	slices.Sort(ps)
	distance, below := 0.0, 0
	for i, p := range ps {
		distance = max(distance, math.Abs(float64(i)/float64(n)-p), math.Abs(float64(i+1)/float64(n)-p))
		if p <= 0.05 {
			below++
		}
	}
	t.Logf("p-values of %d worlds without a difference: Kolmogorov's distance to the uniform distribution %.4f, %.1f "+
		"%% at most 0.05", n, distance, 100*float64(below)/float64(n))
	if bound := 1.63 / math.Sqrt(float64(n)); distance > bound {
		t.Errorf("distance %.4f, want at most %.4f", distance, bound)
	}
	if share := float64(below) / float64(n); math.Abs(share-0.05) > 3*math.Sqrt(0.05*0.95/float64(n)) {
		t.Errorf("%.3f of the p-values are at most 0.05", share)
	}
}
