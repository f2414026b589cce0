package experiment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A vocabulary that VSE-infinity's script saved after it had added <mask> is the one the checkpoint was trained with.
func TestVocabularySavedWithItsMask(t *testing.T) {
	dir := fixtureOf("vseinf")
	var v struct {
		Word2idx map[string]int    `json:"word2idx"`
		Idx2word map[string]string `json:"idx2word"`
		Idx      int               `json:"idx"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "data", "vocab.json"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := json.Marshal(v.Idx)
	if err != nil {
		t.Fatal(err)
	}
	v.Word2idx["<mask>"], v.Idx2word[string(id)] = v.Idx, "<mask>"
	v.Idx++
	if b, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	masked := filepath.Join(t.TempDir(), "vocab_mask.json")
	if err := os.WriteFile(masked, b, 0o666); err != nil {
		t.Fatal(err)
	}
	r := EvalRequest{Checkpoints: []string{filepath.Join(dir, fixtureCheckpoints[0])}, Data: filepath.Join(dir, "data"), Split: "test"}
	r.Device.Kind, r.Device.Precision = "cpu", "fp32"
	_, want := evaluateWith(t, r)
	r.Vocab = masked
	if _, got := evaluateWith(t, r); worst(got, want) != 0 {
		t.Errorf("scores differ by up to %g", worst(got, want))
	}
	// Any other network takes <mask> for a word.
	r.Checkpoints, r.Data = []string{filepath.Join(fixture, fixtureCheckpoints[0])}, filepath.Join(fixture, "data")
	_, err = Eval(t.Context(), r)
	wantError(t, err, "vectors for", "the vocabulary has")
}
