package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
)

// Mined holds the hardest negatives of a training split under one checkpoint or score matrix, hardest first.
type Mined struct {
	MinedHeader
	Images   MinedLists // images for every caption
	Captions MinedLists // captions for every image
}

// MinedHeader says from what negatives were mined, and how.
type MinedHeader struct {
	Source     string  `json:"source"`        // name of the checkpoint or the score matrix
	SHA256     string  `json:"source_sha256"` // of its file
	K          int     `json:"k"`             // most negatives of a caption or image
	Rho        float64 `json:"rho"`           // of the relative margin; 0 is none
	Digest     string  `json:"captions_sha256"`
	NoiseIndex string  `json:"noise_index_sha256,omitempty"` // index of the images of captions; "" if each has its own
}

// MinedLists has k entries for each query: the indices of its negatives, -1 after the last, and their scores.
type MinedLists struct {
	Items  []int32
	Scores []float32
}

// Of returns the negatives of a query.
func (l *MinedLists) Of(query, k int) []int32 {
	items := l.Items[query*k : (query+1)*k]
	if end := slices.Index(items, -1); end >= 0 {
		return items[:end]
	}
	return items
}

// minedKey is the key of the header in the metadata of the file.
const minedKey = "vsetrain.mined"

// tensors returns the lists by their names in the file.
func (m *Mined) tensors() map[string]*MinedLists {
	return map[string]*MinedLists{"images_of_captions": &m.Images, "captions_of_images": &m.Captions}
}

const scoresEnd = ".scores"

// WriteMined writes mined negatives as a safetensors file with a checksum: int32 and float32 [queries, k].
func WriteMined(path string, m *Mined) error {
	head, err := json.Marshal(m.MinedHeader)
	if err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	for _, name := range []string{"images_of_captions", "captions_of_images"} {
		l := m.tensors()[name]
		shape := []int{len(l.Items) / m.K, m.K}
		tensors = append(tensors, safetensors.FromInt32s(name, shape, l.Items),
			safetensors.FromFloat32s(name+scoresEnd, shape, l.Scores))
	}
	return integrity.WriteFile(path, func(w io.Writer) error {
		return safetensors.WriteSealed(w, tensors, map[string]string{minedKey: string(head)}, nil)
	})
}

// readMined reads what WriteMined wrote, and checks it against a split and the noise index of its captions, nil if each
// has its own image. It also returns the SHA-256 of the file.
func readMined(path string, s *Split, noise *runfs.NoiseIndex) (m *Mined, sum string, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s; mine them with `vsetrain mine`", path, fmt.Sprintf(format, args...))
	}
	m = &Mined{}
	head, ok := f.Metadata()[minedKey]
	if !ok {
		return nil, "", fail("no mined negatives: the metadata have no %s", minedKey)
	}
	if err := json.Unmarshal([]byte(head), &m.MinedHeader); err != nil {
		return nil, "", fail("its header: %v", err)
	}
	if sealed, err := f.Verify(); err != nil || !sealed {
		return nil, "", fail("damaged: its content does not fit its checksum")
	}
	index := ""
	if noise != nil {
		index = noise.SHA256
	}
	if d := Digest(s); m.Digest != d {
		return nil, "", fail("negatives of other captions (SHA-256 %.12s) than %s (%.12s)", m.Digest, s.captions.path,
			d)
	}
	if m.NoiseIndex != index {
		return nil, "", fail("mined with noise index %.12q, the run has %.12q", m.NoiseIndex, index)
	}
	sizes := map[string][2]int{"images_of_captions": {s.n, s.NumImages()}, "captions_of_images": {s.NumImages(), s.n}}
	for name, l := range m.tensors() {
		queries, items := sizes[name][0], sizes[name][1]
		t, there := f.Tensor(name)
		if want := []int{queries, m.K}; !there || t.DType != "I32" || m.K < 1 || !slices.Equal(t.Shape, want) {
			return nil, "", fail("tensor %s is %s %v, expected I32 %v", name, t.DType, t.Shape, want)
		}
		if l.Items, err = f.Int32s(name); err != nil {
			return nil, "", err
		}
		l.Scores = make([]float32, t.Len())
		if at := slices.IndexFunc(l.Items, func(v int32) bool { return v < -1 || int(v) >= items }); at >= 0 {
			return nil, "", fail("entry %d of %s is %d, expected -1 to %d", at, name, l.Items[at], items-1)
		}
		if err := f.Float32s(name+scoresEnd, l.Scores); err != nil {
			return nil, "", err
		}
	}
	sum, err = integrity.FileSHA256(path)
	return m, sum, err
}

// AttachMined puts captions and their mined negatives into the same training batches (Mined.together). It returns the
// SHA-256 of the file.
func AttachMined(s *Split, path string, noise *runfs.NoiseIndex) (sum string, err error) {
	m, sum, err := readMined(path, s, noise)
	if err != nil {
		return "", fmt.Errorf("data.mined: %w", err)
	}
	s.arrange = func(order []int32, batch int) []int32 { return m.together(s, order, batch) }
	return sum, nil
}

// together reorders the captions of an epoch so that the batch of an anchor has its mined negatives, up to the batch
// size. Anchors keep their order. After an anchor come in turn the first remaining caption of its next mined image, and
// the next caption mined for its own image. Every caption occurs once.
func (m *Mined) together(s *Split, order []int32, batch int) []int32 {
	place := make([]int32, s.n) // in the order; none for what is taken, and what is not trained on
	const none = math.MaxInt32
	for c := range place {
		place[c] = none
	}
	for at, c := range order {
		place[c] = int32(at)
	}
	out := make([]int32, 0, len(order))
	end := 0
	take := func(c int32) {
		if c >= 0 && place[c] != none && len(out) < end {
			out, place[c] = append(out, c), none
		}
	}
	var own []int32
	for _, c := range order {
		if place[c] == none {
			continue
		}
		end = len(out) - len(out)%batch + batch
		take(c)
		images, captions := m.Images.Of(int(c), m.K), m.Captions.Of(s.ImageOf(int(c)), m.K)
		for k := range max(len(images), len(captions)) {
			if k < len(images) {
				own = captionsOf(own[:0], s, int(images[k]))
				first := int32(-1)
				for _, o := range own {
					if place[o] != none && (first < 0 || place[o] < place[first]) {
						first = o
					}
				}
				take(first)
			}
			if k < len(captions) {
				take(captions[k])
			}
		}
	}
	return out
}
