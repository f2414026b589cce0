package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/data/convert"
	"vsetrain/data/text"
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
	target := convert.Target{Out: filepath.Join(dir, "out"), Splits: []convert.Split{{Name: "x"}}, DType: npy.F32}
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
		{"word pieces", ".txt", nil, func(p string) error { _, err := text.LoadWordPiece(p); return err }},
		{"word vectors", ".txt", nil, func(p string) error {
			_, err := text.ReadWordVectors(p, []string{"dog"}, 2)
			return err
		}},
		{"captions of semantics", ".txt", nil, func(p string) error {
			_, _, err := semantic.ReadCaptions(p)
			return err
		}},
		{"TSV", ".tsv", []string{"empty"}, func(p string) error {
			_, err := convert.TSV(convert.TSVOptions{Target: target, Files: []string{p}}, nil)
			return err
		}},
		{"archive", ".npz", nil, func(p string) error {
			_, err := convert.Arrays(convert.ArrayOptions{Target: target, Path: p}, nil)
			return err
		}},
		{"array", ".npy", []string{"a NumPy array"}, func(p string) error {
			return convert.Retype(p, filepath.Join(dir, "new.npy"), convert.RetypeOptions{DType: npy.F32,
				Force: true}, nil)
		}},
		{"Karpathy", ".json", []string{"JSON"}, func(p string) error {
			_, err := convert.Captions(convert.CaptionOptions{Path: p, Out: target.Out})
			return err
		}},
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
