package loss

import (
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/system/options"
)

// doubted reports whether there is a doubt about a key.
func doubted(o *Options, span float64, pairs int, key string) bool {
	return slices.ContainsFunc(o.Doubts(span, pairs), func(e *options.Error) bool { return e.Key == key })
}

// A constant is doubted where it makes no difference, whatever the scores: a margin from which on all hinges are
// active, a distance or a share that keeps no negative, an epsilon that all anchors are within.
func TestDoubts(t *testing.T) {
	const n = 6
	images := []int32{0, 1, 2, 3, 4, 5}
	set := func(o *Options, key string, value float64) {
		switch key {
		case "margin":
			o.Margin = value
		case "relative.distance":
			own := relativeConstants.of(o)
			own.Filter, own.Distance, o.Margin = "absolute", value, 50
			o.Own[relativeConstants.at] = own
		case "selhn.epsilon":
			own := selHNConstants.of(o)
			own.Epsilon, o.Margin = value, 0.5
			o.Own[selHNConstants.at] = own
		case "rcl.ratio":
			own := rclConstants.of(o)
			own.Ratio = value
			o.Own[rclConstants.at] = own
		}
	}
	for _, name := range Names() {
		for _, key := range []string{"margin", "relative.distance", "selhn.epsilon", "rcl.ratio"} {
			if key == "margin" && registry[name].hinges == nil || key != "margin" && key[:3] != name[:3] {
				continue
			}
			for _, span := range []float64{1, 2} {
				r := rand.New(rand.NewPCG(1, 2))
				draws := make([][]float64, 40)
				for i := range draws {
					draws[i] = make([]float64, n*n)
					for j := range draws[i] {
						draws[i][j] = span * (r.Float64() - 0.5)
						if i%4 == 0 { // matches as far above, or below, the others as there are scores
							draws[i][j] = span * (0.4999 - 0.002*r.Float64())
							if (j%(n+1) == 0) == (i%8 == 0) {
								draws[i][j] *= -1
							}
						}
					}
				}
				limit := span
				if key == "margin" {
					limit = registry[name].hinges(span)
				}
				values := []float64{0.5 * limit, 0.95 * limit, 1.001 * limit, 3 * limit}
				if key == "rcl.ratio" {
					values = []float64{1.01 / n, 0.5, 0.9 / n, 0.01}
				}
				for i, value := range values {
					o, other := DefaultOptions(), DefaultOptions()
					o.Name, other.Name, o.LSEH.Lambda, other.LSEH.Lambda = name, name, 0, 0
					set(&o, key, value)
					set(&other, key, map[bool]float64{true: value * 2, false: value / 2}[key != "rcl.ratio"])
					a, b := newEvaluator(t, &o, n, false, images), newEvaluator(t, &other, n, false, images)
					differ := false
					for _, scores := range draws {
						x, dx := a.at(t, scores)
						_, dy := b.at(t, scores)
						differ = differ || !slices.Equal(dx, dy)
						if key == "rcl.ratio" || key == "relative.distance" {
							differ = differ || x != 0
						}
					}
					if got := doubted(&o, span, n, key); got == differ || got != (i > 1) {
						t.Errorf("%s, %s %v, span %v: doubted %v, makes a difference %v", name, key, value, span, got,
							differ)
					}
					if key != "rcl.ratio" && doubted(&o, 0, n, key) {
						t.Errorf("%s, %s %v is doubted without a span", name, key, value)
					}
				}
			}
		}
	}
	for _, c := range []struct {
		margin, lambda, span float64
		want                 bool
	}{{0.2, 100, 2, true}, {0.2, 1.81, 2, true}, {0.2, 1.79, 2, false}, {0.2, 0.025, 2, false}, {0.2, 0.81, 1, true},
		{2.5, 0, 2, false}, {0.2, 100, 0, false}} {
		o := DefaultOptions()
		o.Name, o.Margin, o.LSEH.Lambda = LSEH, c.margin, c.lambda
		if got := c.span > 0 && doubted(&o, c.span, n, "lseh.lambda"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, name := range Names() { // what is published
		o := DefaultOptions()
		o.Name = name
		if d := o.Doubts(2, 128); len(d) > 0 {
			t.Errorf("%s: %v", name, d[0])
		}
	}
}

// A loss warms up where its form for warm-up epochs is another one.
func TestWarmsUp(t *testing.T) {
	const n = 5
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range Names() {
		o := DefaultOptions()
		o.Name, o.WarmupEpochs = name, 1
		if err := o.Validate(); err != nil {
			if o.WarmsUp() {
				t.Errorf("%s warms up, and %v", name, err)
			}
			continue
		}
		images := []int32{0, 1, 2, 3, 4}
		a, b := newEvaluator(t, &o, n, false, images), newEvaluator(t, &o, n, true, images)
		differ := name == "decl" // of a caption that was judged before
		for range 20 {
			scores := make([]float64, n*n)
			for i := range scores {
				scores[i] = r.Float64()
			}
			x, _ := a.at(t, scores)
			y, _ := b.at(t, scores)
			differ = differ || x != y
		}
		if differ != o.WarmsUp() {
			t.Errorf("%s: another form in warm-up epochs: %v, WarmsUp says %v", name, differ, o.WarmsUp())
		}
		for epochs, want := range map[float64]bool{0: false, 0.5: true, 1: true, 1.01: false, 9: false} {
			if got := o.Unacted(epochs) != ""; got != (want && o.WarmsUp()) {
				t.Errorf("%s after %v epochs: %v", name, epochs, got)
			}
		}
	}
}
