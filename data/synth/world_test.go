package synth

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"vsetrain/internal/compute/philox"
)

func TestFeaturesLookLikeBottomUpAttention(t *testing.T) {
	o := little()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 60, 0, 0, 36, 2048
	dir := generated(t, o)
	v := array(t, dir, "train_ims.npy", 60, 36, 2048)
	var sum, zeros, norms float64
	for i := 0; i < len(v); i += 2048 {
		var sq float64
		for _, x := range v[i : i+2048] {
			if x < 0 || math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("region %d holds %v", i/2048, x)
			}
			if x == 0 {
				zeros++
			}
			sum, sq = sum+x, sq+x*x
		}
		norms += math.Sqrt(sq)
	}
	n := float64(len(v))
	if m := sum / n; m < 0.35 || m > 0.55 {
		t.Errorf("mean %.3f, want about 0.45", m)
	}
	if z := zeros / n; z < 0.7 || z > 0.8 {
		t.Errorf("share of zeros %.3f, want 0.7 to 0.8", z)
	}
	if r := norms / (n / 2048); r < 30 || r > 80 {
		t.Errorf("mean region norm %.1f, want some tens", r)
	}
	// Independent channels would correlate by about 0.02 over 2160 regions.
	if c := meanCorrelation(v, 2048, 40); c < 0.05 {
		t.Errorf("mean absolute correlation of channels %.3f, want above 0.05", c)
	}
}

// meanCorrelation averages |corr| over all pairs of the first k of d channels.
func meanCorrelation(v []float64, d, k int) (mean float64) {
	z := make([][]float64, k)
	for i := range v {
		if c := i % d; c < k {
			z[c] = append(z[c], v[i])
		}
	}
	for a := range k {
		for b := range a {
			mean += math.Abs(stat.Correlation(z[a], z[b], nil)) / float64(k*(k-1)/2)
		}
	}
	return mean
}

// Many pictures must have a twin: the same place and categories, yet another scene.
func TestNearTwins(t *testing.T) {
	tb, k := newTables(), newKeys(3, "test")
	type content struct {
		place int
		cats  [4]int
	}
	twins := map[content][]scene{}
	const n = 640
	for i := range n {
		sc := tb.scene(k.scenes, k.families, i)
		c := content{place: sc.place}
		for j := range sc.n {
			c.cats[j] = sc.objects[j].category + 1
		}
		slices.Sort(c.cats[:])
		twins[c] = append(twins[c], sc)
	}
	similar, same := 0, 0
	for _, list := range twins {
		if len(list) < 2 {
			continue
		}
		similar += len(list)
		for i := range list {
			for j := range i {
				if meaning(list[i]) == meaning(list[j]) {
					same++
				}
			}
		}
	}
	if share := float64(similar) / n; share < 0.4 || share > 0.75 {
		t.Errorf("%.2f of the pictures have a twin, want about half", share)
	}
	if same > n/50 {
		t.Errorf("%d pairs of twins are the same scene", same)
	}
}

// meaning is a scene without geometry.
func meaning(sc scene) scene {
	sc.width, sc.height = 0, 0
	for i := range sc.objects {
		o := &sc.objects[i]
		o.x, o.y, o.w, o.h = 0, 0, 0, 0
	}
	return sc
}

// Every relation must accept the objects it is drawn for, and every scene must have one.
func TestRelationsFitTheirObjects(t *testing.T) {
	tb := newTables()
	used := map[int]int{}
	for i := range 2000 {
		sc := tb.base(philox.NewKey(1, "relations").Stream(uint64(i)))
		r := relations[sc.relation]
		a, b := categories[sc.objects[0].category], categories[sc.objects[1].category]
		if r.subject&a.kind == 0 || r.object&b.kind == 0 || r.traits != 0 && r.traits&b.traits == 0 {
			t.Fatalf("%s %q%q %s", a.names, r.verbs, r.spatial, b.names)
		}
		used[sc.relation]++
	}
	if len(used) < len(relations)-2 {
		t.Errorf("only %d of %d relations occur in 2000 scenes", len(used), len(relations))
	}
}

// Objects beside each other touch, on either side as often, unless the edge of the picture is nearer.
func TestObjectsBesideEachOtherTouch(t *testing.T) {
	tb := newTables()
	sides := map[bool]int{}
	for i := range 2000 {
		s := philox.NewKey(2, "beside").Stream(uint64(i))
		sc := tb.base(s)
		sc.arrange(s)
		a, b := sc.objects[0], sc.objects[1]
		if relations[sc.relation].layout != beside || b.x == 0.08 || b.x == 0.92 {
			continue
		}
		if off := math.Abs(b.x-a.x) - (a.w+b.w)/2; math.Abs(off) > 1e-12 {
			t.Fatalf("scene %d: objects of width %v and %v at %v and %v", i, a.w, b.w, a.x, b.x)
		}
		sides[b.x > a.x]++
	}
	if n := sides[true] + sides[false]; n < 100 || sides[true] < n/3 || sides[false] < n/3 {
		t.Errorf("%d to the right, %d to the left", sides[true], sides[false])
	}
}
