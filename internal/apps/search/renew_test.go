package search

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/lab/try"
)

// amend changes the gallery of options: it removes ids, and adds images with the features of others of the split.
func amend(t *testing.T, o Options, removed []string, added map[string]int, from *data.Split) {
	t.Helper()
	c := data.Change{Removed: removed}
	for id := range added {
		c.Added = append(c.Added, data.NewImage{ID: id, Width: 640, Height: 480})
	}
	try.Do(t, data.Amend(t.Context(), o.Data, "test", c, func(w io.Writer) error {
		for _, n := range c.Added {
			row := make([]float32, from.Regions()*from.Dim())
			if err := from.ReadImage(row, added[n.ID]); err != nil {
				return err
			}
			for i := range row {
				row[i] /= 2
			}
			if _, boxes := data.FeatureDType(from); boxes {
				row = append(row, make([]float32, 4*from.Regions())...)
			}
			if err := binary.Write(w, binary.LittleEndian, row); err != nil {
				return err
			}
		}
		return nil
	}))
}

// An index that is renewed answers as one that is opened anew, bit for bit, and has embedded only what is new. The
// earlier one goes on answering as before until it is closed, also after the other.
func TestRenew(t *testing.T) {
	const query = "A rusty lantern rests near the river."
	for _, network := range []string{"vsepp", "vseinf", "saf", "gsmn"} {
		o := without(t, network, "test_caps.txt")
		if network == "gsmn" {
			o.Shortlist, o.Depth = checkpointOf("vsepp"), 3
		}
		x := try.Get(Open(o))(t)
		ask := func(x *Index) []Hit { return ask(t, x, Query{Text: query, K: 9}) }
		first := ask(x)
		if same, n, err := Renew(t.Context(), x); err != nil || same != x || n != 0 {
			t.Errorf("%s: nothing has changed: %d images were embedded, %v", network, n, err)
		}
		ids := data.ImageIDs(x.split)
		amend(t, o, ids[1:2], map[string]int{"new": 3}, x.split)
		next, embedded, err := Renew(t.Context(), x)
		try.Do(t, err)
		fresh := open(t, o)
		if got, want := ask(next), ask(fresh); !slices.Equal(got, want) || slices.Equal(got, first) {
			t.Errorf("%s: %v, want %v; before %v", network, got, want, first)
		}
		_, pairs := x.members[0].(*scorer)
		if want := map[bool]int{false: 1, true: min(1, len(o.Shortlist))}[pairs]; embedded != want {
			t.Errorf("%s: %d images were embedded, want %d", network, embedded, want)
		}
		if i := next.Info(); i.Images != len(ids) || next.Image(len(ids)-1).ID != "new" {
			t.Errorf("%s: %+v", network, i)
		}
		if got := ask(x); !slices.Equal(got, first) {
			t.Errorf("%s: the earlier index finds %v, want %v", network, got, first)
		}
		try.Do(t, x.Close())
		if again, _, err := Renew(t.Context(), next); err != nil || again != next {
			t.Errorf("%s: renewed again without a change, %v", network, err)
		}
		if got, want := ask(next), ask(fresh); !slices.Equal(got, want) {
			t.Errorf("%s: after the earlier one was closed %v, want %v", network, got, want)
		}
		try.Do(t, next.Close())
	}
}

// What cannot be opened leaves the earlier index, which answers on.
func TestRenewFails(t *testing.T) {
	o := without(t, "vsepp", "test_caps.txt")
	x := open(t, o)
	want := try.Get(x.Text(t.Context(), "a rusty lantern", 3))(t)
	good := try.Get(os.ReadFile(filepath.Join(o.Data, "test_ids.txt")))(t)
	path := filepath.Join(o.Data, "test_ids.txt")
	try.Do(t, os.WriteFile(path, []byte("one\n"), 0o644))
	_, _, err := Renew(t.Context(), x)
	try.Fails(t, err, "test_ids.txt")
	try.Do(t, os.WriteFile(path, good, 0o644))
	if got, err := x.Text(t.Context(), "a rusty lantern", 3); err != nil || !slices.Equal(got.Hits, want.Hits) {
		t.Errorf("%+v, %v", got, err)
	}
	if same, _, err := Renew(t.Context(), x); err != nil || same != x {
		t.Errorf("whole again: %v", err)
	}
}

// A gallery that has changed takes the images of its files from the cache.
func TestCacheOfChanged(t *testing.T) {
	o := without(t, "vsepp", "test_caps.txt")
	o.Cache = filepath.Join(t.TempDir(), "kept")
	x := open(t, o)
	try.Do(t, x.Prepare(t.Context(), TextQueries))
	amend(t, o, data.ImageIDs(x.split)[:1], map[string]int{"new": 1}, x.split)
	encoded := 0
	o.Progress = func(_ string, done, _ int) { encoded = max(encoded, done) }
	changed := open(t, o)
	if err := changed.Prepare(t.Context(), TextQueries); err != nil || encoded != 0 {
		t.Errorf("%d images were encoded, %v", encoded, err)
	}
	o.Cache = ""
	fresh := open(t, o)
	a, _ := changed.members[0].(*embedder).imageRows(t.Context())
	b, _ := fresh.members[0].(*embedder).imageRows(t.Context())
	if !slices.Equal(a, b) || len(a) == 0 || encoded == 0 {
		t.Errorf("%v, want %v", a, b)
	}
}
