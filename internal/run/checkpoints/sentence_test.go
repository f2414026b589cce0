package checkpoints

import (
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
	"vsetrain/semantic"
)

// The sentence vectors of a pretrained encoder are the same as from PyTorch, whatever the batches.
func TestSentenceVectorsOfPyTorch(t *testing.T) {
	for k, pool := range models.SentencePools {
		want := readRows(t, filepath.Join(runtest.BertFixture, "vectors_"+pool+".npy"))
		for _, n := range []int{64, 7} {
			out := filepath.Join(t.TempDir(), "train_bert.npy")
			r := SentenceRequest{Captions: filepath.Join(runtest.BertFixture, "data", "test_caps.txt"),
				Bert: filepath.Join(runtest.BertFixture, "bert"), Pool: pool,
				Out: out, Batch: n, Device: device.Options{Kind: "cpu", Threads: 2, Precision: "fp32"}}
			rep := try.Get(PrecomputeBert(t.Context(), r))(t)
			one := readRows(t, out)
			if n == 7 { // the ranks of a job write the same bits
				r.Out = filepath.Join(t.TempDir(), "ranks.npy")
				devicetest.Ranks(2+k, func(w *devicetest.World) {
					r := r
					r.World = w
					if _, err := PrecomputeBert(t.Context(), r); err != nil {
						t.Error(err)
					}
				})
				if !slices.Equal(readRows(t, r.Out), one) {
					t.Errorf("%s: %d ranks write other vectors than one", pool, 2+k)
				}
			}
			if rep.Captions != 30 || rep.Dim != 12 {
				t.Errorf("%+v", rep)
			}
			if d := runtest.Worst(readRows(t, out), want); !(d <= 5e-6) {
				t.Errorf("%s in batches of %d: largest difference %g", pool, n, d)
			}
			s := try.Get(semantic.Open(out, semantic.OpenOptions{Captions: 30, CaptionFile: r.Captions}))(t)
			if s.Sidecar == nil || s.Sidecar.Method != "bert" || s.Sidecar.Pool != pool {
				t.Errorf("description %+v", s.Sidecar)
			}
			s.Close()
		}
	}
}

func readRows(t *testing.T, path string) (out []float64) {
	t.Helper()
	f := try.Get(npy.Open(path))(t)
	defer f.Close()
	row := make([]float32, f.RowLen())
	for i := range f.Rows() {
		try.Do(t, f.ReadRow(row, i))
		for _, v := range row {
			out = append(out, float64(v))
		}
	}
	return out
}
