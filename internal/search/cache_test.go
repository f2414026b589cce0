package search

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/runfs"
)

// answers asks every query of a split, and counts what was encoded for it.
func answers(t *testing.T, o Options) (all []Hit, encoded int) {
	t.Helper()
	o.Progress = func(stage string, done, total int) {
		if strings.HasPrefix(stage, "encode ") && done == total {
			encoded++
		}
	}
	x := open(t, o)
	for c := range x.Info().Captions {
		a, err := x.OfCaption(t.Context(), c, 3)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a.Hits...)
	}
	for i := range x.Info().Images {
		a, err := x.OfImage(t.Context(), i, 3)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a.Hits...)
	}
	return all, encoded
}

// A second session finds the encodings of the first, and only if nothing they depend on has changed.
func TestCache(t *testing.T) {
	for _, network := range []string{"vsepp", "gsmn"} {
		t.Run(network, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "world")
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(fixtureOf(network), "data"))); err != nil {
				t.Fatal(err)
			}
			o := optionsOf(network)
			o.Data = dir
			want, encoded := answers(t, o)
			if encoded != 1 {
				t.Fatalf("encoded %d times", encoded)
			}
			o.Cache = filepath.Join(t.TempDir(), "not", "there", "yet")
			ask := func(what string, times, files int) {
				t.Helper()
				got, encoded := answers(t, o)
				if encoded != times || slices.Equal(got, want) != (what != "changed features") {
					t.Errorf("%s: encoded %d times, want %d; answers %v, want %v", what, encoded, times, got[:3], want[:3])
				}
				if found, _ := filepath.Glob(filepath.Join(o.Cache, "*")); len(found) != files {
					t.Errorf("%s: the cache holds %q, want %d files", what, found, files)
				}
			}
			ask("first", 1, 1)
			ask("second", 0, 1)

			path, _ := filepath.Glob(filepath.Join(o.Cache, "*"+cacheEnd))
			whole, err := os.ReadFile(path[0])
			if err != nil {
				t.Fatal(err)
			}
			spoil := func(b []byte) {
				if err := os.WriteFile(path[0], b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			bad := slices.Clone(whole)
			bad[len(bad)-9] ^= 1
			spoil(bad)
			ask("a flipped bit", 1, 1)
			spoil(whole[:len(whole)/2])
			ask("cut off", 1, 1)
			ask("mended", 0, 1)

			features := filepath.Join(dir, "test_ims.npy")
			b, err := os.ReadFile(features)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)-1] ^= 0x80 // the sign of the last feature
			if err := os.WriteFile(features, b, 0o600); err != nil {
				t.Fatal(err)
			}
			ask("changed features", 1, 2)
		})
	}
}

// Two programs that score a split with one cache folder are told so, by the name that the folder has here.
func TestCacheOfTwoPrograms(t *testing.T) {
	o := optionsOf("gsmn")
	o.Cache = t.TempDir()
	if _, err := open(t, o).Outcomes(t.Context()); err != nil {
		t.Fatal(err)
	}
	tiles, _ := filepath.Glob(filepath.Join(o.Cache, "*.tiles"))
	if len(tiles) != 1 {
		t.Fatalf("tiles %v", tiles)
	}
	lock, err := runfs.Lock(tiles[0], "")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	_, err = open(t, o).Outcomes(t.Context())
	if !errors.Is(err, runfs.ErrLocked) || !strings.Contains(err.Error(), "name another folder with --cache DIR") {
		t.Errorf("a folder in use: %v", err)
	}
}

func TestGallery(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.jpg", "b.png", "sub/c.jpg", "odd"} {
		path := filepath.Join(dir, "pictures", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := OpenGallery(filepath.Join(dir, "pictures"))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"a.jpg": "a.jpg", "a": "a.jpg", "b": "b.png", "sub/c": "sub/c.jpg", "odd": "odd"} {
		if path, err := g.Path(id); err != nil || path != filepath.Join(dir, "pictures", filepath.FromSlash(want)) {
			t.Errorf("%s: %s, %v", id, path, err)
		}
	}
	bad := []string{"../secret", "../secret.jpg", filepath.Join(dir, "secret.jpg"), "sub/../../secret", "", "sub", "none", "a.jpg\x00"}
	for _, id := range bad {
		if path, err := g.Path(id); err == nil {
			t.Errorf("%q is %s", id, path)
		} else if !strings.Contains(fmt.Sprintf("%v", err), fs.ErrNotExist.Error()) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if got := g.Missing(append([]string{"a", "odd"}, bad...)); !slices.Equal(got, bad) {
		t.Errorf("missing %q", got)
	}
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "secret.jpg")} {
		if _, err := OpenGallery(path); err == nil {
			t.Errorf("%s is a gallery", path)
		}
	}
}
