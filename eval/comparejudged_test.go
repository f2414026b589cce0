package eval

import (
	"math"
	"math/rand/v2"
	"testing"

	"vsetrain/data"
	"vsetrain/lab/try"
)

// judgedWorld has one judged query for each of n images and for their first captions; a query is answered by chance.
func judgedWorld(rng *rand.Rand, n, perImage int, chance float64) JudgedOutcomes {
	o := JudgedOutcomes{Name: "made up"}
	draw := func(q int) JudgedOutcome {
		x := JudgedOutcome{Query: int32(q), R1: rng.Float64() < chance}
		x.MAPAtR, x.RPrecision = float64(b2i(x.R1)), float64(b2i(x.R1))/2
		return x
	}
	for i := range n {
		o.I2T = append(o.I2T, draw(i))
		for c := range 1 + i%perImage {
			o.T2I = append(o.T2I, draw(i*perImage+c))
		}
	}
	return o
}

// A difference that is there is found, with an interval around it; a system does not differ from itself.
func TestCompareJudged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	a, b := judgedWorld(rng, 300, 3, 0.7), judgedWorld(rng, 300, 3, 0.5)
	o := CompareOptions{Resamples: 1000, Seed: 1, Level: 0.95}
	c, err := CompareJudged(nil, a, b, data.EqualGroups(2, 3), o)
	if err != nil || len(c.Differences) != 6 || c.Images != 300 {
		t.Fatalf("%+v, %v", c, err)
	}
	mean := func(list []JudgedOutcome) float64 {
		sum := 0.0
		for _, x := range list {
			sum += x.MAPAtR
		}
		return 100 * sum / float64(len(list))
	}
	for _, i := range []int{0, 3} {
		d := c.Differences[i]
		want := mean(a.I2T) - mean(b.I2T)
		if i == 3 {
			want = mean(a.T2I) - mean(b.T2I)
		}
		if math.Abs(d.Difference.Value-want) > 1e-3 || d.P > 0.01 ||
			!(d.Difference.Low < want && want < d.Difference.High) ||
			d.Difference.Low < 0 {
			t.Errorf("%s: %+v, want a difference of %.4f", d.Measure, d, want)
		}
	}
	// R-Precision is half of mAP@R in this world.
	if x, y := c.Differences[0].Difference, c.Differences[1].Difference; math.Abs(x.High-2*y.High) > 1e-3 {
		t.Errorf("mAP@R %+v, R-Precision %+v", x, y)
	}
	c, err = CompareJudged(nil, a, a, data.EqualGroups(2, 3), o)
	try.Do(t, err)
	for _, d := range c.Differences {
		if d.P != 1 || d.Difference.Low != 0 || d.Difference.High != 0 {
			t.Errorf("with itself: %+v", d)
		}
	}
	alone := JudgedOutcomes{Name: "x", T2I: a.T2I[:1]}
	if c, err = CompareJudged(nil, alone, alone, data.EqualGroups(2, 3), o); err != nil || len(c.Differences) != 3 ||
		c.Images != 1 {
		t.Errorf("one direction: %+v, %v", c, err)
	}
	b.T2I[4].Query++
	try.Refuses(CompareJudged(nil, a, b, data.EqualGroups(2, 3), o))(t, "the same queries")
	if _, err := CompareJudged(nil, JudgedOutcomes{}, JudgedOutcomes{}, data.EqualGroups(2, 3), o); err == nil {
		t.Error("no queries at all")
	}
}
