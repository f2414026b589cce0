package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/data/convert"
	"vsetrain/data/text"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/files/torchfile"
	"vsetrain/lab/try"
	"vsetrain/semantic"
)

// Every reader of a file that people bring says what the file is where it is something else: the files are those that
// people have found under the names of features, checkpoints, vocabularies and captions.
func TestReadersSayWhatAFileIs(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	try.Get(z.Write([]byte("a dog\n")))(t)
	try.Do(t, z.Close())
	try.Do(t, npy.WriteFloat32(filepath.Join(dir, "a.npy"), []int{1, 2}, []float32{1, 2}))
	array := try.Get(os.ReadFile(filepath.Join(dir, "a.npy")))(t)
	files := map[string]string{ // by what has to be said
		"a pointer of Git LFS": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
		"a web page":           "<!DOCTYPE html>\n<html><title>Sign in</title>\n<p>a dog runs</p></html>\n",
		"a gzip archive":       packed.String(),
		"an HDF5 file":         "\x89HDF\r\n\x1a\n" + strings.Repeat("\x00\x08", 50),
		"a NumPy array":        string(array),
		"a file of PyTorch": "PK\x03\x04" + strings.Repeat("\x00", 22) +
			"\x10\x00\x00\x00archive/data.pkl\x80\x02}.",
		"a safetensors file": "\x10\x00\x00\x00\x00\x00\x00\x00{\"a\": 1}        ",
		"a picture":          "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
		"nothing but zeros":  strings.Repeat("\x00", 700),
		"text in UTF-16":     "\xff\xfea\x00 \x00d\x00o\x00g\x00\n\x00",
		"a tar archive":      "a" + strings.Repeat("\x00", 256) + "ustar\x0000" + strings.Repeat("\x00", 300),
		"XML":                "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>\n",
		"JSON":               `{"message": "Not Found"}`,
		"a pickle":           "\x80\x03K\x01.",
		"empty":              "",
	}
	split := func(end string) func(path string) error {
		return func(path string) error {
			folder := try.Files(t, map[string]string{"train_caps.txt": "a\nb\nc\nd\ne\n", "train_ids.txt": "7\n"})
			try.Do(t, npy.WriteFloat32(filepath.Join(folder, "train_ims.npy"), []int{1, 2}, []float32{1, 2}))
			place := filepath.Join(folder, "train"+end)
			try.Do(t, errors.Join(os.RemoveAll(place), os.Symlink(path, place)))
			s, err := data.Open(folder, "train", data.OpenOptions{Dependencies: "use"})
			if err == nil {
				s.Close()
			}
			return err
		}
	}
	convertAs := func(kind string) func(path string) error {
		return func(path string) error {
			o := convert.Options{Out: filepath.Join(dir, "out"), Splits: []convert.Split{{Name: "x"}}, DType: npy.F32,
				Sources: []string{path}}
			if kind == ".npy" {
				o.Out, o.Force = filepath.Join(dir, "new.npy"), true
			}
			at := slices.IndexFunc(convert.Formats, func(f convert.Format) bool { return f.Kind == kind })
			_, err := convert.Formats[at].Convert(&o, nil)
			return err
		}
	}
	for _, reader := range []struct {
		name, ending string
		reads        []string // which says it in its own words, or reads it
		open         func(path string) error
	}{
		{"features", "_ims.npy", []string{"a NumPy array"}, split("_ims.npy")},
		{"captions", "_caps.txt", nil, split("_caps.txt")},
		{"ids", "_ids.txt", []string{"empty"}, split("_ids.txt")},
		{"objects", ".npy", []string{"a NumPy array"}, func(p string) error {
			_, err := npy.ReadObjects(p)
			return err
		}},
		{"checkpoint", ".pth.tar", []string{"a file of PyTorch"}, func(p string) error {
			_, err := torchfile.Load(p)
			return err
		}},
		{"safetensors", ".safetensors", []string{"a safetensors file"}, func(p string) error {
			_, err := safetensors.Open(p)
			return err
		}},
		{"vocabulary", ".pkl", []string{"JSON", "a pickle"}, func(p string) error {
			_, err := text.LoadVocabulary(p)
			return err
		}},
		{"word pieces", ".txt", nil, func(p string) error { _, err := text.LoadBertTokenizer(p, 9); return err }},
		{"word vectors", ".txt", nil, func(p string) error {
			_, err := text.ReadWordVectors(p, []string{"dog"}, 2)
			return err
		}},
		{"captions of semantics", ".txt", nil, func(p string) error {
			_, _, err := semantic.ReadCaptions(p)
			return err
		}},
		{"TSV", ".tsv", []string{"empty"}, convertAs(".tsv")},
		{"archive", ".npz", nil, convertAs(".npz")},
		{"array", ".npy", []string{"a NumPy array"}, convertAs(".npy")},
		{"Karpathy", ".json", []string{"JSON"}, convertAs(".json")},
		{"dependencies", "_caps.json", []string{"JSON"}, split("_caps.json")},
		{"CoNLL-U", "_caps.conllu", []string{"empty"}, split("_caps.conllu")},
	} {
		for what, content := range files {
			path := filepath.Join(dir, "file"+reader.ending)
			try.Do(t, os.WriteFile(path, []byte(content), 0o666))
			err := reader.open(path)
			switch {
			case slices.Contains(reader.reads, what):
			case err == nil:
				t.Errorf("%s: takes a file that is %s", reader.name, what)
			case !strings.Contains(err.Error(), what):
				t.Errorf("%s: of a file that is %s: %v", reader.name, what, err)
			}
		}
	}
}

var convertCommand = regexp.MustCompile("`(vsetrain data convert [^`]*)`[^:;]*: (\\[[0-9 ]*\\])")

// Every command that a message about axes names is run as it stands. It gives the array that the message says, whose
// values are the values of the flags; and where the array was made of features, by axes of length 1 or the axes of a
// grid in another order, one of the commands gives the features back.
func TestAdviceAboutAxes(t *testing.T) {
	dir := try.MemoryDir(t)
	for seed := range 60 {
		s := philox.NewKey(uint64(seed), "axes").Stream(0)
		n, r, d := 2+s.IntN(3), 2+s.IntN(3), 2+s.IntN(4)
		truth := make([]float32, n*r*d)
		for i := range truth {
			truth[i] = float32(s.Norm())
		}
		shape, stored, want := []int{n, r, d}, truth, []int{n, r, d}
		switch kind := s.IntN(4); kind {
		case 0, 1: // a grid [n, 2, r, d] whose places are regions
			if s.IntN(2) == 0 {
				n = 1
			}
			truth = truth[:0]
			for range n * 2 * r * d {
				truth = append(truth, float32(s.Norm()))
			}
			want, shape, stored = []int{n, 2 * r, d}, []int{n, 2, r, d}, truth
			if kind == 1 { // channels first
				stored, shape = make([]float32, len(truth)), []int{n, d, 2, r}
				for i := range n {
					for place := range 2 * r {
						for c := range d {
							stored[(i*d+c)*2*r+place] = truth[(i*2*r+place)*d+c]
						}
					}
				}
			}
			if n == 1 {
				want = nil // images may lie along the second axis as well
			}
		case 2:
			shape, want = []int{n, r * d}, []int{n, r * d}
		}
		ones := s.IntN(3)
		if len(shape)+ones < 4 {
			ones = 4 - len(shape)
		}
		for range ones {
			at := s.IntN(len(shape) + 1)
			shape = slices.Insert(slices.Clone(shape), at, 1)
		}
		data := filepath.Join(dir, fmt.Sprint("d ", seed))
		try.Do(t, os.Mkdir(data, 0o777))
		try.Do(t, npy.WriteFloat32(filepath.Join(data, "test_ims.npy"), shape, stored))
		out, _ := exec.Command("vsetrain", "data", "check", data).CombinedOutput()
		advice := convertCommand.FindAllStringSubmatch(string(out), -1)
		if len(advice) == 0 {
			t.Errorf("seed %d: shape %v: no advice in %s", seed, shape, out)
		}
		back := false
		for _, a := range advice {
			run := exec.Command("sh", "-c", "rm -f NEW.npy && "+a[1])
			run.Dir = data
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("seed %d: shape %v: %s: %s", seed, shape, a[1], out)
				continue
			}
			f := try.Get(npy.Open(filepath.Join(data, "NEW.npy")))(t)
			var got []float32
			for i := range f.Rows() {
				row := make([]float32, f.RowLen())
				try.Do(t, f.ReadRow(row, i))
				got = append(got, row...)
			}
			flags := strings.Fields(a[1])
			if fmt.Sprint(f.Shape) != a[2] || !slices.Equal(got, asFlagsSay(shape, stored, flags)) {
				t.Errorf("seed %d: shape %v: %s gives %v or other values than said: %s", seed, shape, a[1], f.Shape,
					a[2])
			}
			back = back || slices.Equal(f.Shape, want) && slices.Equal(got, truth)
			f.Close()
		}
		if want != nil && !back {
			t.Errorf("seed %d: shape %v of features %v: no command gives them back: %s", seed, shape, want, out)
		}
	}
}

// asFlagsSay returns the values in the order that --squeeze and --grid ask for.
func asFlagsSay(shape []int, v []float32, flags []string) []float32 {
	if !slices.Contains(flags, "nchw") {
		return v
	}
	if i := slices.Index(flags, "--squeeze"); i >= 0 {
		drop := strings.Split(flags[i+1], ",")
		var left []int
		for axis, length := range shape {
			if !slices.Contains(drop, strconv.Itoa(axis)) {
				left = append(left, length)
			}
		}
		shape = left
	}
	n, c, places := shape[0], shape[1], shape[2]*shape[3]
	out := make([]float32, 0, len(v))
	for i := range n {
		for p := range places {
			for ch := range c {
				out = append(out, v[(i*c+ch)*places+p])
			}
		}
	}
	return out
}
