package train

import (
	"math"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/models"
)

// A batch is a set of pairs: in another order it gives the same loss, gradients and running statistics, up to rounding.
func TestOrderOfPairsChangesNothing(t *testing.T) {
	const n, words = 6, 7
	for name, setup := range map[string]func() (*Step, *data.Batch){
		models.VSEInf: func() (*Step, *data.Batch) {
			return vseinfStep(t, newDevice(t, cpu.FP64)), vseinfBatch(1, n, words)
		},
		models.VSRN: func() (*Step, *data.Batch) {
			o := models.DefaultOptions().VSRN
			o.Caption = false // its dropout draws by position
			return vsrnStep(t, newDevice(t, cpu.FP64), o), tinyBatch(1, n, words)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := setup()
			for i := range b.Lengths { // captions of one length, because batches are sorted by it
				b.Lengths[i] = b.Lengths[n-1]
				b.Words[i] = b.Words[i][:b.Lengths[i]]
			}
			s, reversed := setup()
			reversePairs(reversed, b)
			ra, rb := run(t, a, b), run(t, s, reversed)
			if math.Abs(ra.Loss-rb.Loss) > 1e-12*ra.Loss || math.Abs(ra.GradNorm-rb.GradNorm) > 1e-9*ra.GradNorm ||
				ra.Loss == 0 {
				t.Errorf("loss %v and gradient norm %v became %v and %v", ra.Loss, ra.GradNorm, rb.Loss, rb.GradNorm)
			}
			ga, gb := doubles(a.model.Instance.Dev, a.model.Instance.Params.Grads()), doubles(s.model.Instance.Dev,
				s.model.Instance.Params.Grads())
			for i := range ga {
				if math.Abs(ga[i]-gb[i]) > 1e-9*ra.GradNorm {
					t.Fatalf("gradient %d is %v, in another order %v", i, ga[i], gb[i])
				}
			}
			for _, p := range a.model.Instance.Params.Specs {
				if !p.State {
					continue
				}
				x := doubles(a.model.Instance.Dev, a.model.Instance.Params.Value(p.Name))
				y := doubles(s.model.Instance.Dev, s.model.Instance.Params.Value(p.Name))
				for i := range x {
					if math.Abs(x[i]-y[i]) > 1e-12 {
						t.Fatalf("%s is %v, in another order %v", p.Name, x[i], y[i])
					}
				}
			}
		})
	}
}

// reversePairs makes to the batch of the pairs of from, in reverse order.
func reversePairs(to, from *data.Batch) {
	n := from.N
	start := make([]int, n+1) // of the numbers of each image
	for i := range n {
		size := len(from.Features) / n
		if from.Counts != nil {
			size = int(from.Counts[i]) * tinyFeature
		}
		start[i+1] = start[i] + size
	}
	to.Features, to.Counts, to.Words = nil, nil, nil
	for i := range n {
		k := n - 1 - i
		to.Features = append(to.Features, from.Features[start[k]:start[k+1]]...)
		if from.Counts != nil {
			to.Counts = append(to.Counts, from.Counts[k])
		}
		to.Words = append(to.Words, from.Words[k])
		to.Lengths[i], to.ImageIndices[i] = from.Lengths[k], from.ImageIndices[k]
	}
}
