package search

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/try"
)

// without removes a file of the split from a copy of a fixture's data.
func without(t *testing.T, network, file string) Options {
	t.Helper()
	o := copyOf(t, network)
	try.Do(t, os.Remove(filepath.Join(o.Data, file)))
	return o
}

// Images alone answer text queries as they do with captions, and are embedded; captions alone answer pictures. What
// they lack is named.
func TestPartialSplits(t *testing.T) {
	for _, network := range []string{"vsepp", "gsmn"} {
		whole := open(t, optionsOf(network))
		gallery, texts := open(t, without(t, network, "test_caps.txt")), open(t, without(t, network, "test_ims.npy"))
		if i := gallery.Info(); i.Images != whole.Info().Images || i.Captions != 0 || i.Queries != TextQueries ||
			len(gallery.Image(1).Captions) != 0 || gallery.Image(1).ID != whole.Image(1).ID {
			t.Errorf("%s: %+v", network, i)
		}
		if i := texts.Info(); i.Images != 0 || i.Captions != whole.Info().Captions || i.Queries != ImageQueries {
			t.Errorf("%s: %+v", network, i)
		}
		const query = "A rusty lantern rests near the river."
		want := try.Get(whole.Text(t.Context(), query, 4))(t)
		got := gallery.Batch(t.Context(), []Query{{Text: query, K: 4}})
		if got[0].Err != nil || !slices.Equal(got[0].Hits, want.Hits) {
			t.Errorf("%s: %+v, want %v", network, got, want.Hits)
		}
		p := try.Get(whole.members[0].common().readImage(2))(t)
		n := whole.Info().Captions
		a, b := make([]float64, n), make([]float64, n)
		if err := errors.Join(whole.members[0].score(t.Context(), a, &probe{picture: &p}, nil),
			texts.members[0].score(t.Context(), b, &probe{picture: &p}, nil)); err != nil || !slices.Equal(a, b) {
			t.Errorf("%s: %v, want %v (%v)", network, b, a, err)
		}
		var refused *QueryError
		of := func(_ any, err error) error { return err }
		for what, err := range map[string]error{
			"but no captions: expected":       of(gallery.OfImage(t.Context(), 0, 1)),
			"no captions":                     of(gallery.OfCaption(t.Context(), 0, 1)),
			"no captions: ":                   of(gallery.Outcomes(t.Context())),
			"to embed them, captions are not": gallery.Prepare(t.Context(), ImageQueries),
			"but no features: expected":       of(texts.Text(t.Context(), query, 1)),
			"no features":                     texts.Prepare(t.Context(), AllQueries),
		} {
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v lacks %q", network, err, what)
			}
		}
	}
	o, texts := without(t, "vsepp", "test_caps.txt"), without(t, "vsepp", "test_ims.npy")
	for _, c := range []struct{ data, what, want string }{{o.Data, EmbedImages, ""}, {texts.Data, EmbedCaptions, ""},
		{o.Data, EmbedCaptions, "no captions"}, {texts.Data, EmbedImages, "no features"}} {
		r := EmbedRequest{What: c.what, Out: filepath.Join(t.TempDir(), "x.npy"), Request: pretrained.Request{
			Checkpoint: checkpointOf("vsepp"), Data: c.data, Device: o.Device}}
		rep, err := Embed(t.Context(), r)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %+v, %v", c.what, c.data, rep, err)
		}
	}
}
