package search

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func TestUnknownWords(t *testing.T) {
	x := open(t, optionsOf("vsepp"))
	for query, words := range map[string]string{
		"zyzzyva quux":  "(unknown: zyzzyva, quux)",
		" zyzzyva . ":   "(unknown: zyzzyva", // the full stop is a word of the vocabulary
		"":              "has no words",
		" \t ":          "has no words",
		"<start> <unk>": "no word is in the vocabulary",
	} {
		_, err := x.Text(t.Context(), query, 3)
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), words) {
			t.Errorf("query %q: %v, want %q", query, err, words)
		}
	}
	a, err := x.Text(t.Context(), "a rusty zyzzyva near the quux , zyzzyva", 3)
	if err != nil || !slices.Equal(a.Unknown, []string{"zyzzyva", "quux"}) {
		t.Errorf("unknown %q, %v", a.Unknown, err)
	}
	try.Refuses(x.Text(t.Context(), strings.Repeat("rusty ", 5000), 3))(t, "5000 words")
}

func TestFindImage(t *testing.T) {
	x := open(t, optionsOf("vsepp"))
	for i := range x.Info().Images {
		if at, err := x.FindImage(x.Image(i).ID); err != nil || at != i {
			t.Errorf("image %d by its id %q: %d, %v", i, x.Image(i).ID, at, err)
		}
	}
	if im := x.Image(1); len(im.Captions) != x.Info().Own.Each() ||
		im.Captions[0] != x.Caption(len(im.Captions)) {
		t.Errorf("%+v", im)
	}
	for _, id := range []string{"", "none.jpg", "-1", "99999", "1.5"} {
		if at, err := x.FindImage(id); err == nil {
			t.Errorf("%q is image %d", id, at)
		}
	}
	for _, i := range []int{-1, x.Info().Images} {
		if _, err := x.OfImage(t.Context(), i, 1); err == nil {
			t.Errorf("image %d is found", i)
		}
	}
	for _, c := range []int{-1, x.Info().Captions} {
		if _, err := x.OfCaption(t.Context(), c, 1); err == nil {
			t.Errorf("caption %d is found", c)
		}
	}
}

func TestBadOptions(t *testing.T) {
	with := func(f func(*Options)) Options {
		o := optionsOf("vsepp")
		f(&o)
		return o
	}
	for want, o := range map[string]Options{
		"no checkpoint":     with(func(o *Options) { o.Checkpoints = nil }),
		"shortlist of -1":   with(func(o *Options) { o.Depth = -1 }),
		"batch -1":          with(func(o *Options) { o.Batch = -1 }),
		"precision":         with(func(o *Options) { o.Device.Precision = "fp31" }),
		"no split \"none\"": with(func(o *Options) { o.Split = "none" }),
		"which data set":    with(func(o *Options) { o.Data = "" }),
		"which scores pairs itself": with(func(o *Options) {
			o.Shortlist, o.Data = checkpointOf("gsmn"), filepath.Join(fixtureOf("gsmn"), "data")
		}),
		"no such file":      with(func(o *Options) { o.Checkpoints = []string{"none"} }),
		"expected a folder": with(func(o *Options) { o.Cache = "search_test.go" }),
	} {
		try.Refuses(Open(o))(t, want)
	}
}

// Features that become shorter under an open index are an error that names the file; the index is as before when they
// are back.
func TestFeaturesThatBecomeShorter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped")
	}
	o := optionsOf("vsepp")
	dir := filepath.Join(t.TempDir(), "data")
	try.Do(t, os.CopyFS(dir, os.DirFS(o.Data)))
	o.Data = dir
	x := open(t, o)
	path := filepath.Join(dir, "test_ims.npy")
	whole, err := os.ReadFile(path)
	try.Do(t, err)
	try.Do(t, os.Truncate(path, 0))
	_, err = x.Text(t.Context(), x.Caption(0), 1)
	try.Fails(t, err, path+" became shorter while it was in use")
	try.Do(t, os.WriteFile(path, whole, 0o666))
	if _, err := x.Text(t.Context(), x.Caption(0), 1); err != nil {
		t.Errorf("whole again: %v", err)
	}
}
