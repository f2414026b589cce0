package search

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/system/onnxruntime"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// copyOf copies the data set of a fixture, so that a record can lie in it.
func copyOf(t *testing.T, network string) Options {
	t.Helper()
	o := optionsOf(network)
	dir := t.TempDir()
	try.Do(t, os.CopyFS(dir, os.DirFS(o.Data)))
	o.Data = dir
	return o
}

// A picture of the split's own features finds what the image of the split finds, with every kind of network.
func TestPictureIsImage(t *testing.T) {
	for _, name := range []string{"vsepp", "vseinf", "saf", "gsmn"} {
		x := open(t, optionsOf(name))
		m := x.members[0]
		p := try.Get(m.common().readImage(2))(t)
		n := x.Info().Captions
		of := []int32{3, 0, 7}
		for _, of := range [][]int32{nil, of} {
			size := n
			if of != nil {
				size = len(of)
			}
			want, got := make([]float64, size), make([]float64, size)
			try.Do(t, errors.Join(m.score(t.Context(), want, &probe{number: 2}, of),
				m.score(t.Context(), got, &probe{picture: &p}, of)))
			if !slices.Equal(got, want) || slices.Max(got) == slices.Min(got) {
				t.Errorf("%s: scores %v, want %v", name, got, want)
			}
		}
		if p.boxes != nil {
			p.boxes = nil
			err := m.score(t.Context(), make([]float64, n), &probe{picture: &p}, nil)
			if !errors.Is(err, errNoBoxes) {
				t.Errorf("%s without boxes: %v", name, err)
			}
		}
	}
}

// A picture is asked with the model that made the features, and with no other.
func TestOpenExtractor(t *testing.T) {
	path := runtest.Extractor(t, 8)
	warned := 0
	o := copyOf(t, "gsmn")
	o.Warn = func(error) { warned++ }
	x := open(t, o)
	if i := x.Info(); warned != 1 || i.Origin != pretrained.UnknownOrigin ||
		!strings.Contains(i.OriginNote, "there is no record that") {
		t.Errorf("%d warnings, %+v", warned, i)
	}
	warned = 0
	try.Refuses(x.OpenExtractor("", os.Getenv))(t, "--extractor")
	e, err := x.OpenExtractor(path, os.Getenv)
	if errors.Is(err, onnxruntime.ErrNone) {
		t.Skip(err)
	}
	if err != nil || warned != 1 {
		t.Fatalf("%v, %d warnings", err, warned)
	}
	defer e.Close()
	p := &pictures.RGB{Width: 12, Height: 6, Pix: make([]byte, 3*72)}
	for i := range p.Pix {
		p.Pix[i] = byte(i * 7)
	}
	a, err := e.OfPicture(t.Context(), p, 4)
	if err != nil || len(a.Hits) != 4 || a.Rank != -1 || a.Scored != x.Info().Captions {
		t.Errorf("%+v, %v", a, err)
	}

	write := func(r data.ExtractorRecord) {
		b, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(data.ExtractorFile(o.Data, "test"), b, 0o644)
		}
		try.Do(t, err)
	}
	write(data.ExtractorRecord{Model: path, Hash: e.Hash})
	recorded := try.Get(x.OpenExtractor("", os.Getenv))(t)
	defer recorded.Close()
	b, err := recorded.OfPicture(t.Context(), p, 4)
	if err != nil || !slices.Equal(a.Hits, b.Hits) || warned != 1 {
		t.Errorf("recorded: %+v, %v, %d warnings", b, err, warned)
	}
	write(data.ExtractorRecord{Model: "other.onnx", Hash: strings.Repeat("0", 64)})
	if _, err := x.OpenExtractor(path, os.Getenv); err == nil ||
		!strings.Contains(err.Error(), "is not the model that made the features of the data set, other.onnx") {
		t.Errorf("another model: %v", err)
	}
	try.Do(t, os.Remove(data.ExtractorFile(o.Data, "test")))
	try.Refuses(x.OpenExtractor(runtest.Extractor(t, 9), os.Getenv))(t, "makes features of 36 x 9, ")
}
