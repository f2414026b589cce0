package search

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/runfs"
	"vsetrain/lab/try"
)

// answers asks every query of a split, and counts what was encoded for it.
func answers(t *testing.T, o Options) (all []Hit, encoded int) {
	t.Helper()
	o.Progress = func(phase string, done, total int) {
		if strings.HasPrefix(phase, "encode ") && done == total {
			encoded++
		}
	}
	x := open(t, o)
	for c := range x.Info().Captions {
		a := try.Get(x.OfCaption(t.Context(), c, 3))(t)
		all = append(all, a.Hits...)
	}
	for i := range x.Info().Images {
		a := try.Get(x.OfImage(t.Context(), i, 3))(t)
		all = append(all, a.Hits...)
	}
	return all, encoded
}

// A second session finds the encodings of the first, and only if nothing they depend on has changed.
func TestCache(t *testing.T) {
	for _, network := range []string{"vsepp", "gsmn"} {
		t.Run(network, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "world")
			try.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join(fixtureOf(network), "data"))))
			o := optionsOf(network)
			o.Data = dir
			want, encoded := answers(t, o)
			if encoded != 2 {
				t.Fatalf("encoded %d sides", encoded)
			}
			o.Cache = filepath.Join(t.TempDir(), "not", "there", "yet")
			ask := func(what string, times, files int) {
				t.Helper()
				got, encoded := answers(t, o)
				if encoded != times || slices.Equal(got, want) != (what != "changed features") {
					t.Errorf("%s: encoded %d sides, want %d; answers %v, want %v", what, encoded, times, got[:3],
						want[:3])
				}
				if found, _ := filepath.Glob(filepath.Join(o.Cache, "*")); len(found) != files {
					t.Errorf("%s: the cache holds %q, want %d files", what, found, files)
				}
			}
			ask("first", 2, 2)
			ask("second", 0, 2)

			path, _ := filepath.Glob(filepath.Join(o.Cache, "*-images-*"+cacheEnd))
			whole := try.Get(os.ReadFile(path[0]))(t)
			spoil := func(b []byte) {
				try.Do(t, os.WriteFile(path[0], b, 0o600))
			}
			bad := slices.Clone(whole)
			bad[len(bad)-9] ^= 1
			spoil(bad)
			ask("a flipped bit", 1, 2)
			spoil(whole[:len(whole)/2])
			ask("cut off", 1, 2)
			ask("mended", 0, 2)

			features := filepath.Join(dir, "test_ims.npy")
			b := try.Get(os.ReadFile(features))(t)
			b[len(b)-1] ^= 0x80 // the sign of the last feature
			try.Do(t, os.WriteFile(features, b, 0o600))
			ask("changed features", 2, 4)
		})
	}
}

// A text query encodes the images alone, an image query the captions alone; both have the scores that they have when
// all is encoded.
func TestSidesAreEncodedWhenNeeded(t *testing.T) {
	for _, network := range []string{"vsepp", "vseinf", "saf", "gsmn"} {
		t.Run(network, func(t *testing.T) {
			o := optionsOf(network)
			var phases []string
			o.Progress = func(phase string, done, total int) {
				if done == total {
					phases = append(phases, strings.TrimSuffix(phase, " "+filepath.Base(o.Checkpoints[0])))
				}
			}
			encoded := func(what string, want ...string) {
				t.Helper()
				if !slices.Equal(phases, want) {
					t.Errorf("%s: %q, want %q", what, phases, want)
				}
				phases = nil
			}
			all := open(t, o)
			encoded("opening")
			try.Do(t, all.Prepare(t.Context(), AllQueries))
			encoded("all queries", "encode images", "encode captions")
			try.Get(all.Outcomes(t.Context()))(t)
			if network == "saf" || network == "gsmn" { // they score pairs
				encoded("outcomes", "score")
			} else {
				encoded("outcomes")
			}
			x := open(t, o)
			for _, query := range []string{all.Caption(0), all.Caption(7)} {
				got, err := x.Text(t.Context(), query, 9)
				want, e := all.Text(t.Context(), query, 9)
				if err != nil || e != nil || !slices.Equal(got.Hits, want.Hits) {
					t.Errorf("%q: %v, %v, want %v, %v", query, got.Hits, err, want.Hits, e)
				}
			}
			encoded("text queries", "encode images")
			y := open(t, o)
			for i := range 3 {
				got, err := y.OfImage(t.Context(), i, 9)
				want, e := all.OfImage(t.Context(), i, 9)
				if err != nil || e != nil || got.Rank != want.Rank || !slices.Equal(got.Hits, want.Hits) {
					t.Errorf("image %d: %v, %v, want %v, %v", i, got.Hits, err, want.Hits, e)
				}
			}
			encoded("image queries", "encode captions")
		})
	}
}

// A cache that nobody asked for is bounded, and a session continues without it where it cannot be written.
func TestOwnCache(t *testing.T) {
	o := optionsOf("vsepp")
	o.Cache, o.CacheLimit = filepath.Join(t.TempDir(), "vsetrain", "encoded"), 1<<20
	ask := func() {
		t.Helper()
		try.Do(t, open(t, o).Prepare(t.Context(), AllQueries))
	}
	files := func() []string {
		found, _ := filepath.Glob(filepath.Join(o.Cache, "*"))
		return found
	}
	ask()
	if len(files()) != 2 {
		t.Fatalf("the cache holds %q", files())
	}
	old := time.Now().Add(-time.Hour)
	for _, f := range files() {
		try.Do(t, os.Chtimes(f, old, old))
	}
	first := files()
	o.CacheLimit, o.Checkpoints, o.Data = 1, []string{checkpointOf("vsrn")}, filepath.Join(fixtureOf("vsrn"), "data")
	ask()
	if now := files(); len(now) != 1 || slices.Contains(first, now[0]) {
		t.Errorf("a cache of one byte holds %q, after %q", now, first)
	}
	var warned []error
	o.Cache = filepath.Join(files()[0], "below a file")
	o.Warn = func(err error) { warned = append(warned, err) }
	ask()
	if len(warned) != 3 || !strings.Contains(warned[1].Error(), "encodings are not kept: ") { // after features
		t.Errorf("a folder that cannot be made: %v", warned)
	}
	o.CacheLimit = 0
	if err := open(t, o).Prepare(t.Context(), TextQueries); err == nil {
		t.Error("a folder that was named and cannot be made is no error")
	}
}

// Two programs that score a split with one cache folder are told so, by the name that the folder has here.
func TestCacheOfTwoPrograms(t *testing.T) {
	o := optionsOf("gsmn")
	o.Cache = t.TempDir()
	try.Get(open(t, o).Outcomes(t.Context()))(t)
	tiles, _ := filepath.Glob(filepath.Join(o.Cache, "*.tiles"))
	if len(tiles) != 1 {
		t.Fatalf("tiles %v", tiles)
	}
	lock, err := runfs.Lock(tiles[0], "")
	try.Do(t, err)
	defer lock.Close()
	_, err = open(t, o).Outcomes(t.Context())
	if !errors.Is(err, runfs.ErrLocked) || !strings.Contains(err.Error(), "name another folder with --cache DIR") {
		t.Errorf("a folder in use: %v", err)
	}
}

// ranked is a member that looks at the pool it is ranked on.
type ranked struct {
	member
	pool *par.Pool
}

func (r *ranked) all(ctx context.Context, pool *par.Pool) (eval.Scores, error) {
	r.pool = pool
	return r.member.all(ctx, pool)
}

// Queries do not wait for the ranking of all queries: a pool runs one loop at a time, and the ranking has one of its
// own.
func TestQueriesDoNotWaitForTheRanking(t *testing.T) {
	x := open(t, optionsOf("vsepp"))
	r := &ranked{member: x.members[0]}
	x.members[0] = r
	try.Get(x.Outcomes(t.Context()))(t)
	if r.pool == nil || r.pool == x.pool || r.pool == r.common().pool {
		t.Error("the split is ranked on the pool of the queries")
	}
}
