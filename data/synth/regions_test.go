package synth

import (
	"math"
	"testing"

	"vsetrain/internal/compute/philox"
)

// Whatever captions speak of must be visible in the region of its object: two regions that share an attribute must be
// more alike (centred cosine) than two that do not. Pairs of one category are left out except for the category itself.
func TestRegionsShowWhatCaptionsName(t *testing.T) {
	const dim, n = 256, 700
	tb, k := newTables(), newKeys(1, "train")
	d := detector{codes: newCodes(1, dim)}
	scenes, feats := make([]scene, n), make([][]float32, n)
	mean := make([]float32, dim)
	for i := range scenes {
		scenes[i] = tb.scene(k.scenes, k.families, i)
		s := philox.NewKey(1, "test").Stream(uint64(i))
		d.list(&scenes[i])
		reg := region{source: source{aspect: body}, box: box{0, 0, 50, 50}}
		d.instance[0] = s.IntN(noiseLength)
		d.describe(&scenes[i], s, &reg)
		feats[i] = make([]float32, dim)
		d.render(feats[i], d.terms)
		for c, v := range feats[i] {
			mean[c] += v / n
		}
	}
	for i := range feats {
		var sq float32
		for c := range feats[i] {
			feats[i][c] -= mean[c]
			sq += feats[i][c] * feats[i][c]
		}
		for c := range feats[i] {
			feats[i][c] /= float32(math.Sqrt(float64(sq)))
		}
	}
	main := func(sc *scene) *object { return &sc.objects[0] }
	for name, c := range map[string]struct {
		value func(*scene) int // -1: not to be compared
		least float64
	}{
		"category": {func(sc *scene) int { return main(sc).category }, 0.1},
		"kind":     {func(sc *scene) int { return int(main(sc).kind()) }, 0.03},
		"colour":   {func(sc *scene) int { return main(sc).colour }, 0.04},
		"garment":  {func(sc *scene) int { return main(sc).garment }, 0.008},
		"clothes":  {func(sc *scene) int { return main(sc).garmentColour }, 0.012},
		"size":     {func(sc *scene) int { return main(sc).size - 1 }, 0.01},
		"count":    {func(sc *scene) int { return main(sc).count - 2 }, 0.025},
		"action":   {func(sc *scene) int { return main(sc).action }, 0.03},
		"relation": {func(sc *scene) int { return sc.relation }, 0.03},
		"style": {func(sc *scene) int {
			if main(sc).style == 0 {
				return -1
			}
			return 100*int(main(sc).kind()) + main(sc).style
		}, 0.02},
	} {
		var sum [2]float64
		var pairs [2]float64
		for i := range feats {
			a := c.value(&scenes[i])
			for j := range i {
				b := c.value(&scenes[j])
				if a < 0 || b < 0 || name != "category" && main(&scenes[i]).category == main(&scenes[j]).category {
					continue
				}
				// Kinds share colours, actions and styles: compare within a kind.
				if name != "category" && name != "kind" && main(&scenes[i]).kind() != main(&scenes[j]).kind() {
					continue
				}
				var dot float32
				for x, v := range feats[i] {
					dot += v * feats[j][x]
				}
				same := 0
				if a == b {
					same = 1
				}
				sum[same] += float64(dot)
				pairs[same]++
			}
		}
		if gain := sum[1]/pairs[1] - sum[0]/pairs[0]; !(gain > c.least) {
			t.Errorf("%s: regions that share it are more alike by %.3f, want at least %.3f", name, gain, c.least)
		} else {
			t.Logf("%s: %.3f", name, gain)
		}
	}
}
