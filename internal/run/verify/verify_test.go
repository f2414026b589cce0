package verify

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	lexicon "vsetrain/data/text"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/journal"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/files/tfevents"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

var (
	damageTime = flag.Duration("damage-time", 0, "how long TestDamages and TestSetsOfParts draw; 0 draws a few hundred")
	damageSeed = flag.Uint64("damage-seed", 1, "seed of the damages")
)

func quiet(string, int, int) {}

// folder makes a data set, a run on it, and files as a sweep and eval write them.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	try.Do(t, os.CopyFS(filepath.Join(dir, "world"), os.DirFS(runtest.World)))
	c := runtest.TinyConfig()
	c.Data.Dir, c.Train.Epochs = filepath.Join(dir, "world"), 1
	w := &runtest.Watcher{}
	runtest.Interrupt(t, runtest.Request(c, filepath.Join(dir, "run"), w), 7)
	runtest.Resume(t, runtest.Request(c, filepath.Join(dir, "run"), w))
	rows := make([]float32, 900_000) // four blocks
	for i := range rows {
		rows[i] = float32(i)
	}
	big := filepath.Join(dir, "big")
	for _, err := range []error{os.Mkdir(big, 0o777), os.Mkdir(filepath.Join(dir, "trial"), 0o777),
		npy.WriteFloat32(filepath.Join(big, "test_ims.npy"), []int{900, 1000}, rows),
		os.WriteFile(filepath.Join(big, "vocab.txt"), []byte("[PAD]\n[UNK]\nthe\n"), 0o666), // word pieces
		integrity.WriteJSON(filepath.Join(dir, "trial", "result-2.json"), map[string]any{"epochs": 2, "score": 12.5}),
		integrity.WriteText(filepath.Join(dir, "trial", "target"), []byte("2\n")),
		journal.Append(filepath.Join(big, "test"+journal.Ending), []byte("head"), []byte("{}"),
			func(w io.Writer) error {
				_, err := w.Write(make([]byte, 1000))
				return err
			})} {
		try.Do(t, err)
	}
	try.Get(integrity.Record(big))(t)
	return dir
}

// damage changes the bytes of a file as disks and people do.
func damage(r *rand.Rand, b []byte) (bad []byte, how string) {
	bad = bytes.Clone(b)
	at := r.IntN(len(b))
	length := min(512, len(b)-at)
	switch how = []string{"bit", "byte", "zeros", "noise", "cut", "extended", "doubled", "dropped",
		"exchanged"}[r.IntN(9)]; how {
	case "bit":
		bad[at] ^= 1 << r.IntN(8)
	case "byte":
		bad[at] = byte(r.Uint32())
	case "zeros":
		clear(bad[at : at+length])
	case "noise":
		for i := range length {
			bad[at+i] = byte(r.Uint32())
		}
	case "cut":
		bad = bad[:at]
	case "extended":
		bad = binary.LittleEndian.AppendUint64(bad, r.Uint64())
	case "doubled":
		bad = slices.Insert(bad, at, b[at:at+length]...)
	case "dropped":
		bad = slices.Delete(bad, at, at+length)
	case "exchanged":
		n := len(b) / 3
		copy(bad, b[n:2*n])
		copy(bad[n:], b[:n])
	}
	return bad, how
}

// records are the bytes at which the records of an event file begin, and its end.
func records(b []byte) (at []int) {
	for i := 0; ; i += 16 + int(binary.LittleEndian.Uint64(b[i:])) { // length, its CRC, the record, its CRC
		if at = append(at, i); i >= len(b) {
			return at
		}
	}
}

// withoutRecords reports whether an event file lacks some records as a whole, which nothing tells.
func withoutRecords(bad, b []byte) bool {
	n, begins := len(b)-len(bad), records(b)
	return n > 0 && slices.ContainsFunc(begins, func(at int) bool {
		return slices.Contains(begins, at+n) && bytes.Equal(bad, slices.Concat(b[:at], b[at+n:]))
	})
}

// sameVocabulary reports whether a vocabulary reads as before: another case of a letter of a key, which JSON ignores.
func sameVocabulary(t *testing.T, name string, bad, b []byte) bool {
	if name != "vocab.json" {
		return false
	}
	path, hash := filepath.Join(t.TempDir(), name), [2]string{}
	for i, b := range [][]byte{bad, b} {
		try.Do(t, os.WriteFile(path, b, 0o666))
		if v, err := lexicon.LoadVocabulary(path); err == nil {
			hash[i] = v.Hash()
		}
	}
	return hash[0] == hash[1]
}

// TestDamages draws damages of all kinds of files. Each is named, with its block where a manifest has blocks, and no
// other file is.
func TestDamages(t *testing.T) {
	dir := folder(t)
	whole, err := Path(t.Context(), dir, quiet)
	if err != nil || len(whole.Damaged) > 0 || whole.Whole < 25 {
		t.Fatalf("before any damage: %+v, %v", whole, err)
	}
	if len(whole.Without) > 0 {
		t.Errorf("nothing tells about %v", whole.Without)
	}
	metrics := filepath.Join(dir, "run", runfs.MetricsName)
	log := try.Get(os.ReadFile(metrics))(t)
	digit := bytes.Index(log, []byte(`"loss":`)) + len(`"loss":`) // another number, in JSON as good as before
	other := bytes.Clone(log)
	other[digit] = '1' + (other[digit]-'0')%9
	try.Do(t, os.WriteFile(metrics, other, 0o666))
	damagedOnly(t, filepath.Join(dir, "run"), metrics, "another digit", log, other)
	try.Do(t, os.WriteFile(metrics, log, 0o666))
	var files []string
	for _, pattern := range []string{"world/*", "big/*", "trial/*", "run/*", "run/checkpoints/*"} {
		all := try.Get(filepath.Glob(filepath.Join(dir, pattern)))(t)
		files = append(files, slices.DeleteFunc(all, func(path string) bool {
			info, err := os.Stat(path)
			return err != nil || info.IsDir() || strings.HasPrefix(filepath.Base(path), ".")
		})...)
	}
	r := rand.New(rand.NewPCG(*damageSeed, 2))
	drawn, n, failed, until := map[string]int{}, 0, 0, time.Now().Add(*damageTime)
	for n < 200 || time.Now().Before(until) {
		path := files[r.IntN(len(files))]
		b := try.Get(os.ReadFile(path))(t)
		bad, how := damage(r, b)
		name := filepath.Base(path)
		longer, shorter := bytes.HasPrefix(bad, b), bytes.HasPrefix(b, bad)
		if longer && shorter || name == runfs.MetricsName && longer || sameVocabulary(t, name, bad, b) ||
			strings.HasPrefix(name, tfevents.Prefix) && (longer || shorter || withoutRecords(bad, b)) {
			continue // an end that is not whole is what a kill leaves
		}
		n++
		drawn[name]++
		try.Do(t, os.WriteFile(path, bad, 0o666))
		top, _, _ := strings.Cut(strings.TrimPrefix(path, dir+"/"), "/")
		if !damagedOnly(t, filepath.Join(dir, top), path, how, b, bad) {
			failed++
		}
		try.Do(t, os.WriteFile(path, b, 0o666))
	}
	t.Logf("campaign: damages: %d found, %[1]d tried, %d failed", n, failed)
	if len(drawn) < 20 {
		t.Errorf("damages of %d files alone", len(drawn))
	}
}

// damagedOnly verifies a folder of which one file is damaged, and reports whether that file is named and no other.
func damagedOnly(t *testing.T, dir, path, how string, b, bad []byte) (good bool) {
	t.Helper()
	r := try.Get(Path(t.Context(), dir, quiet))(t)
	name := filepath.Base(path)
	differ := 0
	for differ < min(len(b), len(bad)) && b[differ] == bad[differ] {
		differ++
	}
	const seal = 80 // bytes at the begin of a text
	if slices.Contains(r.Without, path) && len(r.Damaged) == 0 && differ < seal {
		return true // the damage took the checksum itself, and that is told
	}
	good = true
	wrong := func(format string, args ...any) {
		t.Helper()
		good = false
		t.Errorf("%s, %s: "+format, append([]any{path, how}, args...)...)
	}
	follows := func(d Damage) bool { // it is compared with the damaged file
		return (name == runfs.LastName || name == integrity.ManifestName) && d.Path != path
	}
	named := false
	for _, d := range r.Damaged {
		switch {
		case d.Path == path:
			named = true
			block := fmt.Sprintf("block %d ", differ/integrity.BlockSize)
			if name == "test_ims.npy" && !strings.Contains(d.What+" ", block) {
				wrong("byte %d: %s", differ, d.What)
			}
		case !follows(d):
			wrong("%s is named: %s", d.Path, d.What)
		}
	}
	if !named {
		wrong("not named; without checksum: %v", r.Without)
	}
	return good
}

// A checkpoint that is damaged names the tensor.
func TestTensorIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	var out bytes.Buffer
	x := make([]float32, 600_000)
	try.Do(t, safetensors.WriteSealed(&out, []safetensors.Tensor{safetensors.FromFloat32s("a", []int{10}, x[:10]),
		safetensors.FromFloat32s("b", []int{600_000}, x)}, nil, nil))
	b := out.Bytes()
	b[len(b)-1] ^= 1
	try.Do(t, os.WriteFile(path, b, 0o666))
	r, err := Path(t.Context(), path, quiet)
	if err != nil || len(r.Damaged) != 1 ||
		!strings.HasPrefix(r.Damaged[0].What, `tensor "b", bytes 2097152 to 2399999`) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Files of earlier versions are no damage: they have no checksum, and that is said.
func TestEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"config.yaml": "seed: 1\n", "test.json": "{\n  \"a\": 1\n}\n",
		"test_extractor.json": "{\n  \"model\": \"m.onnx\",\n  \"sha256\": \"ab\",\n  \"dim\": 4\n}\n",
		"train_caps.txt":      "a dog\n"} {
		try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	r, err := Path(t.Context(), dir, quiet)
	if err != nil || len(r.Without) != 4 || r.Whole != 0 || len(r.Damaged) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	try.Do(t, os.Remove(filepath.Join(dir, "train_caps.txt")))
	try.Get(integrity.Record(dir))(t)
	try.Do(t, os.Remove(filepath.Join(dir, "test.json")))
	r, err = Path(t.Context(), dir, quiet)
	if err != nil || r.Whole != 3 || len(r.Damaged) != 1 || !strings.Contains(r.Damaged[0].What, "is missing") {
		t.Errorf("%+v, %v", r, err)
	}
}
