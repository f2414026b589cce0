package eval

import (
	"math/rand/v2"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// A fifth of MS-COCO's 5,000 test images with lists as long as ECCV Caption's and plausible match's.
func BenchmarkPositions(b *testing.B) {
	const n, m = 1000, 5000
	rng := rand.New(rand.NewPCG(1, 2))
	d := try.Get(newDense[float32](n, m))(b)
	for i := range d.Data {
		d.Data[i] = rng.Float32()
	}
	lists := func(queries, candidates, length int) (r Relevance) {
		for q := range queries {
			var list []int32
			for _, c := range rng.Perm(candidates)[:length] {
				list = append(list, int32(c))
			}
			r.add(int32(q), list, 0)
		}
		return r
	}
	pool := par.New(1)
	defer pool.Close()
	for _, c := range []struct {
		name           string
		images, inText int
	}{{"eccv", 18, 8}, {"plausible", 200, 40}} {
		i2t, t2i := lists(n, m, c.images), lists(m, n, c.inText)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := positions(usualTiles(), pool, d, &i2t, &t2i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
