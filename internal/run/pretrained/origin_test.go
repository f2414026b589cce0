package pretrained

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/lab/try"
)

// setOf writes the features of a split, as a model of a number makes them, with a record of it or without.
func setOf(t *testing.T, r *rand.Rand, dir, split string, model int, recorded bool) {
	t.Helper()
	try.Do(t, os.MkdirAll(dir, 0o755))
	w := try.Get(npy.Create(filepath.Join(dir, split+"_ims.npy"), npy.F32, []int{3, 2, 4}))(t)
	values := make([]float32, 24)
	for i := range values {
		values[i] = float32(model) + r.Float32()
	}
	try.Do(t, w.WriteFloat32(values))
	try.Do(t, w.Close())
	os.Remove(data.ExtractorFile(dir, split))
	if recorded {
		hash := strings.Repeat(string(rune('a'+model)), 64)
		b := try.Get(json.Marshal(data.ExtractorRecord{Model: "/m/x.onnx", Hash: hash, Regions: 2, Dim: 4}))(t)
		try.Do(t, os.WriteFile(data.ExtractorFile(dir, split), b, 0o644))
	}
}

// runOn makes what a training on a data set leaves of it, as this program or one before it did.
func runOn(t *testing.T, dir, set string, age int) {
	t.Helper()
	try.Do(t, os.MkdirAll(dir, 0o755))
	c := config.Default()
	c.Data.Dir = set
	try.Do(t, os.WriteFile(filepath.Join(dir, "config.yaml"), config.Marshal(&c), 0o644))
	try.Do(t, os.WriteFile(filepath.Join(dir, "vocab.json"), []byte("{}"), 0o644))
	marks := try.Get(inputs.Fingerprint(set))(t)
	switch age {
	case 0:
		f := try.Get(inputs.FeaturesOf(set, "train", 2, 4))(t)
		try.Do(t, integrity.WriteJSON(filepath.Join(dir, inputs.DataName), inputs.WithFeatures(marks, f)))
	case 1: // before features were kept
		try.Do(t, integrity.WriteJSON(filepath.Join(dir, inputs.DataName), marks))
	}
}

// Features that are called the same were made by the same model, and those that are called different by two. Where it
// is not known, a record is missing, and the gallery is not of the data set of the run without any.
func TestOriginIsWhatHappened(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[Origin]int{}
	for i := range 120 {
		top := t.TempDir()
		set, run, moved := filepath.Join(top, "set"), filepath.Join(top, "run"), filepath.Join(top, "moved")
		maker, recorded, age := r.IntN(2), r.IntN(2) == 0, r.IntN(3)
		setOf(t, r, set, "train", maker, recorded)
		testMaker, testRecorded := maker, recorded
		if testRecorded = recorded || r.IntN(3) == 0; testRecorded { // a set without records is of one model
			testMaker = r.IntN(2)
		}
		setOf(t, r, set, "test", testMaker, testRecorded)
		runOn(t, run, set, age)
		gallery, own := set, true
		switch i % 4 {
		case 1: // the set elsewhere, which is known by its files
			try.Do(t, os.Rename(set, moved))
			gallery, own = moved, age < 2
		case 2: // another one
			gallery, own = filepath.Join(top, "other"), false
			testMaker, testRecorded = r.IntN(2), r.IntN(2) == 0
			setOf(t, r, gallery, "test", testMaker, testRecorded)
		case 3: // the set was made again, by another model, after the training
			if age == 2 {
				continue // nobody can know
			}
			testMaker, testRecorded, own = 1-maker, r.IntN(2) == 0, false
			setOf(t, r, set, "train", testMaker, testRecorded)
			setOf(t, r, set, "test", testMaker, testRecorded)
			recorded = recorded && age == 0 // the record of the training is gone
		}
		if i%4 == 1 && age > 0 {
			recorded = false // neither: the run's own folder is gone
		}
		p := try.Get(trace(run, gallery))(t)
		f := try.Get(inputs.FeaturesOf(gallery, "test", 2, 4))(t)
		got, note := p.compare("g", f)
		seen[got]++
		switch {
		case got == SameOrigin && testMaker != maker, got == OtherOrigin && testMaker == maker,
			got == UnknownOrigin && recorded && testRecorded, got == UnknownOrigin && own && !recorded && !testRecorded,
			(note == "") != (got == SameOrigin):
			t.Errorf("%d: %s (%s): made by %d, recorded %v, age %d; the gallery by %d, recorded %v, own %v", i, got,
				note, maker, recorded, age, testMaker, testRecorded, own)
		}
	}
	for _, o := range []Origin{SameOrigin, OtherOrigin, UnknownOrigin} {
		if seen[o] < 5 {
			t.Errorf("%d are %s", seen[o], o)
		}
	}
}

// A record beside features of another size is of an earlier array.
func TestRecordOfAnEarlierArray(t *testing.T) {
	dir := t.TempDir()
	setOf(t, rand.New(rand.NewPCG(1, 2)), dir, "test", 1, true)
	if f := try.Get(inputs.FeaturesOf(dir, "test", 36, 2048))(t); f != (inputs.Features{}) {
		t.Errorf("%+v", f)
	}
	if f := try.Get(inputs.FeaturesOf(dir, "test", 2, 4))(t); f.SHA256 == "" || f.Model != "x.onnx" {
		t.Errorf("%+v", f)
	}
}

// The published features are of one model, whichever of the sets.
func TestPublishedFeaturesAreOfOneModel(t *testing.T) {
	p := provenance{features: inputs.Features{Published: "f30k_precomp"}}
	if o, note := p.compare("g", inputs.Features{Published: "coco_precomp"}); o != SameOrigin || note != "" {
		t.Errorf("%s, %s", o, note)
	}
	if o, _ := p.compare("g", inputs.Features{SHA256: "a"}); o != UnknownOrigin {
		t.Errorf("%s", o)
	}
}
