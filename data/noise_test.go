package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

func TestGoldenNoise(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "losses_more.json", &file)
	n := 0
	for _, raw := range file.Cases {
		var kind struct {
			Type string `json:"loss_type"`
		}
		try.Do(t, json.Unmarshal(raw, &kind))
		if kind.Type != "noise" {
			continue
		}
		n++
		var c struct {
			Name   string
			Config struct {
				Rule             string
				Seed             uint32
				Captions, Images int
				PerImage         int `json:"captions_per_image"`
				Ratio            float64
			}
			Expected struct{ Index, Correct []int64 }
		}
		try.Do(t, json.Unmarshal(raw, &c))
		groups := EqualGroups(c.Config.Images, 1)
		if c.Config.Rule == "captions" {
			groups = EqualGroups(c.Config.Captions/c.Config.PerImage, c.Config.PerImage)
		}
		got := NoisyCaptions(groups, c.Config.Ratio, c.Config.Seed)
		if !slices.Equal(got, c.Expected.Index) {
			t.Errorf("%s: %v, want %v", c.Name, got, c.Expected.Index)
		}
		right := int64(0)
		for _, v := range c.Expected.Correct {
			right += v
		}
		if _, wrong, err := NoisyPairs(got, groups); err != nil || wrong != groups.Items()-int(right) {
			t.Errorf("%s: %d wrong captions, want %d: %v", c.Name, wrong, groups.Items()-int(right), err)
		}
	}
	if n == 0 {
		t.Error("no case")
	}
}

// The files of Flickr30K that BiCro publishes, by the beginning of the SHA-256 of their data.
func TestNoisyCaptionsAreThePublishedOnes(t *testing.T) {
	const captions = 145000
	for _, c := range []struct {
		ratio float64
		seed  uint32
		wrong int
		sum   string
	}{{0.2, 96, 28999, "4d367b5592645950"}, {0.4, 96, 58000, "8152f92aa51c5afc"}, {0.5, 34, 72497, "9db257937b57de99"},
		{0.6, 96, 86996, "bcf16a227419634d"}} {
		index := NoisyCaptions(EqualGroups(captions/5, 5), c.ratio, c.seed)
		var b bytes.Buffer
		try.Do(t, binary.Write(&b, binary.LittleEndian, index))
		if got := fmt.Sprintf("%x", sha256.Sum256(b.Bytes())); !strings.HasPrefix(got, c.sum) {
			t.Errorf("ratio %v of seed %d: SHA-256 %.16s, want %s", c.ratio, c.seed, got, c.sum)
		}
		if _, wrong, err := NoisyPairs(index, EqualGroups(captions/5, 5)); err != nil || wrong != c.wrong {
			t.Errorf("ratio %v: %d wrong captions, want %d: %v", c.ratio, wrong, c.wrong, err)
		}
	}
}

func TestNoisyPairs(t *testing.T) {
	images, wrong, err := NoisyPairs([]int64{1, 0, 2}, EqualGroups(3, 2)) // an entry for each image
	if err != nil || wrong != 4 || !slices.Equal(images, []int64{1, 1, 0, 0, 2, 2}) {
		t.Errorf("%v, %d wrong, %v", images, wrong, err)
	}
	for _, c := range []struct {
		index []int64
		want  string
	}{{[]int64{0, 0, 1, 1}, "4 entries, expected 6"}, {[]int64{0, 1, 3}, "entry 2 is 3, expected the number of an " +
		"image"},
		{[]int64{0, -1, 2}, "entry 1 is -1"}} {
		if _, _, err := NoisyPairs(c.index, EqualGroups(3, 2)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.index, err, c.want)
		}
	}
}

// With a noise index every caption comes with the features and the number of the image that the index says, also where
// rows are stored once per caption, and the record names the file.
func TestBatchesFollowANoiseIndex(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		for _, index := range [][]int64{NoisyCaptions(EqualGroups(9, 5), 0.6, 2), {3, 1, 2, 0, 4, 5, 8, 7, 6}} {
			w := newWorld(t, 9, 5, repeated, "train")
			s := w.open(t, "train", OpenOptions{})
			path := w.noise(t, index...)
			n := try.Get(AttachNoise(s, path))(t)
			raw := try.Get(os.ReadFile(path))(t)
			wrong, seen := 0, 0
			o := LoaderOptions{Batch: 8, Seed: 3, Shuffle: true, Epochs: 1}
			for b := range batchesOf(NewLoader(s, vocab(t), o))(t) {
				for i, c := range b.Indices {
					want := index[c*int32(len(index))/45]
					if want != int64(c/5) {
						wrong++
					}
					seen++
					if int64(b.ImageIndices[i]) != want || b.Features[i*12+3] != w.feature(int(want), 3) {
						t.Fatalf("caption %d: image %d, features %v, want image %d", c, b.ImageIndices[i],
							b.Features[i*12:i*12+12], want)
					}
				}
			}
			if n.File != "noise.npy" || n.SHA256 != fmt.Sprintf("%x", sha256.Sum256(raw)) ||
				n.Wrong != wrong || wrong == 0 || n.Of != 45 || seen != 45 {
				t.Errorf("%+v, want %d of 45 wrong in noise.npy", n, wrong)
			}
		}
	}
}

func TestBadNoiseIndex(t *testing.T) {
	w := newWorld(t, 3, 2, false, "train")
	s := w.open(t, "train", OpenOptions{CaptionsPerImage: 2})
	w.array(t, "floats.npy", []int{6}, make([]float32, 6))
	f := try.Get(npy.Create(w.path("wide.npy"), npy.I64, []int{3, 2}))(t)
	try.Do(t, errors.Join(f.WriteInts(make([]int64, 6)), f.Close()))
	for name, want := range map[string][]string{
		"none.npy":   {"none.npy", "no such file", "`vsetrain data noise " + w.dir},
		"floats.npy": {"floats.npy: elements of float32, expected int64", "astype('int64')"},
		"wide.npy":   {"wide.npy: shape [3 2], expected [captions]", "reshape(-1)"},
		"other":      {"noise.npy: 5 entries, expected 6", "or 3, of each image", "train_caps.txt", "data noise"},
		"far":        {"noise.npy: entry 4 is 3, expected the number of an image from 0 to 2", "data noise"},
	} {
		path := w.path(name)
		switch name {
		case "other":
			path = w.noise(t, 0, 0, 1, 1, 2)
		case "far":
			path = w.noise(t, 0, 0, 1, 1, 3, 2)
		}
		try.Refuses(AttachNoise(s, path))(t, append(want, "data.noise_index: ")...)
		if s.ImageOf(5) != 2 {
			t.Errorf("%s: the split follows it", name)
		}
	}
}
