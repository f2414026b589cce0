package data

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/lab/try"
)

// Every caption comes once an epoch, as many of the mined negatives of an anchor as there is room for are in its batch,
// the batches follow from seed and epoch alone, and a file of other data is refused.
func TestMinedNegativesShareABatch(t *testing.T) {
	const n, k, depth, size = 60, 5, 2, 7
	s := &Split{n: n, layout: layout{groups: EqualGroups(n/k, k)}, captions: &lineFile{path: "train_caps.txt"}}
	m := &Mined{MinedHeader: MinedHeader{K: depth}}
	for c := range n {
		m.Images.Items = append(m.Images.Items, int32((c/k+3)%(n/k)), -1)
	}
	for i := range n / k {
		m.Captions.Items = append(m.Captions.Items, int32((i*k+7)%n), int32((i*k+31)%n))
	}
	epoch := func(sampler *Sampler, e int) (all []int32) {
		sampler.arrange = func(order []int32) []int32 { return m.together(s, order, size) }
		for i := range sampler.BatchesPerEpoch() {
			all = append(all, sampler.Batch(e, i)...)
		}
		return all
	}
	plain, _ := NewSampler(n, size, 5, true, false)
	sampler, _ := NewSampler(n, size, 5, true, false)
	other, _ := NewSampler(n, size, 5, true, false)
	later := epoch(other, 2) // as a run that resumes in epoch 2 asks
	for e := range 3 {
		all := epoch(sampler, e)
		if sorted := slices.Sorted(slices.Values(all)); len(sorted) != n || sorted[0] != 0 ||
			len(slices.Compact(sorted)) != n {
			t.Fatalf("epoch %d: not every caption once: %v", e, all)
		}
		if e == 2 && !slices.Equal(all, later) {
			t.Error("the order of epoch 2 depends on what was asked for before")
		}
		var shuffled []int32
		for i := range plain.BatchesPerEpoch() {
			shuffled = append(shuffled, plain.Batch(e, i)...)
		}
		for i := range sampler.BatchesPerEpoch() {
			batch, before := sampler.Batch(e, i), all[:i*size]
			left := slices.DeleteFunc(slices.Clone(shuffled), func(c int32) bool { return slices.Contains(before, c) })
			if batch[0] != left[0] {
				t.Errorf("epoch %d: batch %d begins with %d, the first caption that is left is %d", e, i, batch[0],
					left[0])
			}
			image := (int(batch[0])/k + 3) % (n / k)
			of := slices.IndexFunc(left, func(c int32) bool { return int(c)/k == image && c != batch[0] })
			mined := m.Captions.Items[int(batch[0])/k*depth:][:depth]
			if of >= 0 {
				mined = append(slices.Clone(mined), left[of])
			}
			for _, c := range mined {
				if slices.Contains(left, c) && !slices.Contains(batch, c) && len(batch) == size {
					t.Errorf("epoch %d: caption %d is without %d, which was mined for it: %v", e, batch[0], c, batch)
				}
			}
		}
	}
	if slices.Equal(epoch(sampler, 0), epoch(sampler, 1)) {
		t.Error("two epochs have the same order")
	}
}

// A file comes back as it was written; one of other captions, of another noise index, or that is none is refused.
func TestMinedFiles(t *testing.T) {
	dir := t.TempDir()
	s := newWorld(t, 4, 5, false, "train").open(t, "train", OpenOptions{})
	m := &Mined{MinedHeader: MinedHeader{Source: "best", K: 1, Rho: 0.95, Digest: Digest(s)}}
	for range s.NumCaptions() {
		m.Images.Items, m.Images.Scores = append(m.Images.Items, -1), append(m.Images.Scores, 0.5)
	}
	for i := range s.NumImages() {
		m.Captions.Items, m.Captions.Scores = append(m.Captions.Items, int32(i)), append(m.Captions.Scores, 0.25)
	}
	path := filepath.Join(dir, "mined.safetensors")
	write := func() {
		t.Helper()
		try.Do(t, WriteMined(path, m))
	}
	write()
	got, sum, err := readMined(path, s, nil)
	if err != nil || len(sum) != 64 || got.MinedHeader != m.MinedHeader ||
		!slices.Equal(got.Images.Items, m.Images.Items) || !slices.Equal(got.Captions.Scores, m.Captions.Scores) {
		t.Fatalf("%v, read %+v, wrote %+v", err, got, m)
	}
	if _, _, err := readMined(path, s, &runfs.NoiseIndex{SHA256: "ab"}); err == nil ||
		!strings.Contains(err.Error(), "noise index") {
		t.Errorf("another noise index: %v", err)
	}
	refused := func(want string) {
		t.Helper()
		write()
		try.Refuses(AttachMined(s, path, nil))(t, want)
	}
	m.Captions.Items[0] = int32(s.NumCaptions())
	refused("entry 0 of captions_of_images is")
	m.Captions.Items[0], m.Digest = 0, "abc"
	refused("negatives of other captions")
	m.Digest, m.K = Digest(s), s.NumCaptions()
	m.Captions = MinedLists{make([]int32, m.K), make([]float32, m.K)}
	refused("expected I32")
}
