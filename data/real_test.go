package data

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/data/text"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// unzip writes a compressed file of the public data into dir.
func unzip(t testing.TB, path, to string) {
	t.Helper()
	f := try.Get(os.Open(path))(t)
	defer f.Close()
	z := try.Get(gzip.NewReader(f))(t)
	out := try.Get(os.Create(to))(t)
	try.Get(io.Copy(out, z))(t)
	try.Do(t, out.Close())
}

// flickr30k lays out the captions of Flickr30K with features of length 1.
func flickr30k(t testing.TB) string {
	t.Helper()
	root := os.Getenv("VSETRAIN_DATA")
	if root == "" {
		t.Skip("VSETRAIN_DATA is unset: captions of the public data sets are not part of the project")
	}
	dir := t.TempDir()
	for split, images := range map[string]int{"train": 29000, "dev": 1014, "test": 1000} {
		for _, kind := range []string{"caps", "ids"} {
			unzip(t, filepath.Join(root, "text", "f30k_text", split+"_"+kind+".txt.gz"),
				filepath.Join(dir, split+"_"+kind+".txt"))
		}
		data := make([]float32, images)
		for i := range data {
			data[i] = float32(i)
		}
		try.Do(t, npy.WriteFloat32(filepath.Join(dir, split+"_ims.npy"), []int{images, 1, 1}, data))
	}
	unzip(t, filepath.Join(root, "text", "vocab", "f30k_precomp_vocab.json.gz"), filepath.Join(dir, "vocab.json"))
	return dir
}

func TestFlickr30K(t *testing.T) {
	r := try.Get(Check(flickr30k(t), CheckOptions{}))(t)
	if !r.OK() {
		t.Errorf("problems:\n%s", problems(r))
	}
	want := map[string][3]int{"train": {145000, 29000, 0}, "dev": {5000, 1000, 70}, "test": {5000, 1000, 0}}
	for _, s := range r.Splits {
		if got := [3]int{s.Captions, s.Images, s.Dropped}; got != want[s.Name] || s.CaptionsPerImage != 5 {
			t.Errorf("%s: captions, images, dropped %v, want %v; k %d", s.Name, got, want[s.Name], s.CaptionsPerImage)
		}
		// The published vocabulary was built on these captions by another tokeniser run: what it lacks are words
		// that occur fewer than four times.
		if rate := float64(s.Unknown) / float64(s.Words); rate > 0.02 || rate == 0 {
			t.Errorf("%s: %.4f of the words are unknown to the published vocabulary", s.Name, rate)
		}
	}
}

func BenchmarkOpenFlickr30K(b *testing.B) {
	dir := flickr30k(b)
	for b.Loop() {
		s := try.Get(Open(dir, "train", OpenOptions{}))(b)
		s.Close()
	}
}

// BenchmarkLoader assembles batches of 128 x 36 x 2048 from a file of 256 images.
func BenchmarkLoader(b *testing.B) {
	w := newWorld(b, 256, 5, false)
	w.regions, w.dim = 36, 2048
	w.writeSplit(b, "train")
	s := try.Get(Open(w.dir, "train", OpenOptions{}))(b)
	defer s.Close()
	v := try.Get(text.BuildVocabulary(s.Captions, 1))(b)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			l := try.Get(NewLoader(s, v, LoaderOptions{Batch: 128, Shuffle: true, Workers: workers}))(b)
			defer l.Close()
			b.ReportAllocs()
			b.SetBytes(128 * 36 * 2048 * 4)
			for b.Loop() {
				batch := try.Get(l.Next())(b)
				l.Release(batch)
			}
		})
	}
}
