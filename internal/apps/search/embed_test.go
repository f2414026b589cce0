package search

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/try"
)

func embedRequest(network, what, out string) EmbedRequest {
	o := optionsOf(network)
	return EmbedRequest{What: what, Out: out, Request: pretrained.Request{Checkpoint: o.Checkpoints[0],
		Data: o.Data, Split: "test", Device: o.Device}}
}

// The product of what embed writes is the score matrix of PyTorch.
func TestEmbedGivesTheScoresOfPyTorch(t *testing.T) {
	for _, network := range []string{"vsepp", "vsrn", "vseinf", "vseinf-bert"} {
		dir := t.TempDir()
		images, captions := filepath.Join(dir, "images.npy"), filepath.Join(dir, "captions.safetensors")
		for what, out := range map[string]string{EmbedImages: images, EmbedCaptions: captions} {
			try.Get(Embed(t.Context(), embedRequest(network, what, out)))(t)
		}
		s := matrixOf(t, filepath.Join(fixtureOf(network), "scores.npy"))
		n, m := s.Dims()
		a := try.Get(npy.Open(images))(t)
		defer a.Close()
		b := try.Get(safetensors.Open(captions))(t)
		defer b.Close()
		c, ok := b.Tensor("embeddings")
		if !ok || len(a.Shape) != 2 || a.Shape[0] != n || len(c.Shape) != 2 || c.Shape[0] != m ||
			c.Shape[1] != a.Shape[1] {
			t.Fatalf("%s: shapes %v and %v", network, a.Shape, c.Shape)
		}
		x, y := make([]float32, a.Shape[1]), make([]float32, c.Len())
		try.Do(t, c.Float32s(y))
		for i := range n {
			try.Do(t, a.ReadRow(x, i))
			for j := range m {
				var dot float64
				for e, v := range x {
					dot += float64(v) * float64(y[j*len(x)+e])
				}
				if d := math.Abs(dot - s.At(i, j)); !(d <= 5e-6) {
					t.Fatalf("%s: image %d, caption %d: %v, want %v", network, i, j, dot, s.At(i, j))
				}
			}
		}
		checkIDs(t, idsPath(images), b.Metadata(), filepath.Join(fixtureOf(network), "data", "test_ids.txt"), m/n)
	}
}

// checkIDs compares the ids of images and captions with the ids of the data set.
func checkIDs(t *testing.T, images string, captions map[string]string, want string, k int) {
	t.Helper()
	lines := func(path string) []string {
		b := try.Get(os.ReadFile(path))(t)
		return strings.Fields(string(b))
	}
	ids, all := lines(images), lines(want)
	if len(all) == k*len(ids) { // one a caption
		for i := range ids {
			all[i] = all[i*k]
		}
		all = all[:len(ids)]
	}
	if !slices.Equal(ids, all) {
		t.Errorf("ids %q, want %q", ids, all)
	}
	var got []string
	try.Do(t, json.Unmarshal([]byte(captions["ids"]), &got))
	if len(got) != k*len(ids) || got[0] != ids[0]+"#0" || got[k] != ids[1]+"#0" ||
		got[k-1] != ids[0]+"#"+string(rune('0'+k-1)) {
		t.Errorf("ids of captions %q", got)
	}
	if hash := sha256.Sum256([]byte(strings.Join(got, "\n") + "\n")); captions["ids_sha256"] !=
		hex.EncodeToString(hash[:]) {
		t.Errorf("SHA-256 of the ids %q", captions["ids_sha256"])
	}
	if captions["kind"] != EmbedCaptions || captions["split"] != "test" || captions["network"] == "" {
		t.Errorf("metadata %q", captions)
	}
}

// What fails leaves the old file alone.
func TestEmbedKeepsTheOldFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.safetensors")
	try.Do(t, os.WriteFile(out, []byte("old"), 0o600))
	for want, r := range map[string]EmbedRequest{
		"so neither has an embedding":       embedRequest("saf", EmbedImages, out),
		"expected images, captions or text": embedRequest("vsepp", "everything", out),
		":1: no words": func() EmbedRequest {
			r := embedRequest("vsepp", EmbedTexts, out)
			r.Texts = []string{" "}
			return r
		}(),
	} {
		try.Refuses(Embed(t.Context(), r))(t, want)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "old" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// Ids and array are one set, the array last: neither is there without the other.
func TestArrayComesAfterItsIDs(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a.npy")
	rep := EmbedReport{Rows: 2, Dim: 1, Files: []string{out, idsPath(out)}}
	set := &atomicfile.Set{}
	defer set.Abort()
	try.Do(t, stageNPY(set, rep, []float32{1, 2}, []string{"7", "9"}))
	if got := set.Paths(); len(got) != 2 || got[0] != idsPath(out) || got[1] != out {
		t.Errorf("%v", got)
	}
	if err := os.Mkdir(out, 0o777); err != nil { // the array cannot be put there
		t.Fatal(err)
	}
	if err := set.Commit(); err == nil {
		t.Error("no error")
	}
	if _, err := os.Lstat(idsPath(out)); !os.IsNotExist(err) {
		t.Errorf("ids without their array: %v", err)
	}
}
