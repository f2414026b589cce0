package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/system/bind"
	"vsetrain/lab/try"
)

// growing is a stub with as many images as its number; all answers are of one of them. It notes what is open.
type growing struct {
	stub
	images int
	open   *atomic.Int32
	most   *atomic.Int32
}

func newGrowing(images int, open, most *atomic.Int32) *growing {
	g := &growing{images: images, open: open, most: most}
	if n := open.Add(1); n > most.Load() {
		most.Store(n)
	}
	return g
}

func (g *growing) Tokenise(q search.Query) (search.Query, error) {
	time.Sleep(2 * time.Millisecond) // in which a swap may come between
	return q, nil
}
func (g *growing) Info() search.Info        { return search.Info{Images: g.images, Data: "."} }
func (g *growing) Image(i int) search.Image { return search.Image{ID: fmt.Sprint(i)} }
func (g *growing) Close() error             { g.open.Add(-1); return nil }
func (g *growing) Batch(_ context.Context, queries []search.Query) []search.Result {
	out := make([]search.Result, len(queries))
	for i := range out {
		out[i].Scored, out[i].Hits = g.images, []search.Hit{{Index: g.images - 1}}
	}
	time.Sleep(time.Millisecond)
	if g.open.Load() < 1 {
		panic("a query after the end")
	}
	return out
}

// started runs a server of one split on an address until stop.
func started(t testing.TB, o Options, x Searcher) (s *Server, url string, stop func()) {
	t.Helper()
	l := try.Get(bind.Listen("127.0.0.1:0"))(t)
	o.Splits = []string{"test"}
	s = try.Get(New(o))(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, l, func(context.Context) (Opened, error) {
			return Opened{Searchers: map[string]Searcher{"test": x}}, nil
		})
	}()
	for s.health() != "ready" {
		time.Sleep(time.Millisecond)
	}
	return s, "http://" + l.Addr().String(), sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func postTo[T any](t *testing.T, url, body string) (to T, status int) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return to, 0
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &to)
	}
	if err != nil {
		t.Errorf("%s: %v in %s", url, err, b)
	}
	return to, r.StatusCode
}

// While indexes are swapped no request is lost, every answer is of one index, and no more than two are open.
func TestReloadLosesNothing(t *testing.T) {
	var open, most, images atomic.Int32
	images.Store(1)
	s, url, stop := started(t, Options{Renew: func(_ context.Context, _ string, x Searcher) (Searcher, int, error) {
		if n := int(images.Load()); n != x.Info().Images {
			return newGrowing(n, &open, &most), 1, nil
		}
		return x, 0, nil
	}}, newGrowing(1, &open, &most))
	defer stop()
	end := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for before := 0; ; {
				select {
				case <-end:
					return
				default:
				}
				a, status := postTo[SearchAnswer](t, url+"/v1/search", `{"query":"dog"}`)
				if status != 200 || len(a.Hits) != 1 || a.Hits[0].Image != a.Scored-1 || a.Scored < before ||
					a.Version != a.Scored {
					t.Errorf("%d: %+v, %d images before", status, a, before)
					return
				}
				before = a.Scored
			}
		})
	}
	for range 20 {
		n := images.Add(1)
		var asked sync.WaitGroup
		for range 3 { // a reload while one runs
			asked.Go(func() {
				a, status := postTo[ReloadAnswer](t, url+"/v1/reload", "{}")
				if status != 200 || len(a.Splits) != 1 || a.Splits[0].Images != int(n) ||
					a.Splits[0].Version != int(n) {
					t.Errorf("%d: %+v, want %d images", status, a, n)
				}
			})
		}
		asked.Wait()
	}
	close(end)
	clients.Wait()
	if n := most.Load(); n > 2 {
		t.Errorf("%d indexes were open at a time", n)
	}
	hasMetrics(t, s, `vsetrain_index_images{split="test"} 21`, `vsetrain_index_version{split="test"} 21`,
		`vsetrain_index_age_seconds{split="test"} `, `vsetrain_reloads_total{result="failed"} 0`)
	if i, _ := ask[InfoAnswer](t, s, "/v1/info", ""); i.Splits[0].Version != 21 || i.Splits[0].Images != 21 {
		t.Errorf("%+v", i)
	}
	if stop(); open.Load() != 0 {
		t.Errorf("%d indexes are still open", open.Load())
	}
}

// What cannot be read leaves the index and the token; a good token takes the place of the old one.
func TestReloadFails(t *testing.T) {
	var open, most atomic.Int32
	token, fails := "0123456789abcdef", errors.New("test_ids.txt: 1 ids for 2 image rows")
	s := readyServer(t, Options{Token: token, NewToken: func() (string, error) { return token, nil },
		Renew: func(_ context.Context, _ string, x Searcher) (Searcher, int, error) { return x, 0, fails }},
		map[string]Searcher{"test": newGrowing(7, &open, &most)})
	const first = "0123456789abcdef"
	refuses := func(what, bearer string, status int, code, message string) {
		t.Helper()
		e, got := ask[ErrorAnswer](t, s, "/v1/reload", "{}", "Authorization: Bearer "+bearer)
		if got != status || e.Error.Code != code || !strings.Contains(e.Error.Message, message) {
			t.Errorf("%s: %d, %+v", what, got, e)
		}
	}
	refuses("no token", "", 401, "unauthorized", "")
	refuses("unreadable ids", first, 422, "not_reloaded", "split test: test_ids.txt: 1 ids")
	for _, bad := range []string{"short", ""} {
		token = bad
		refuses("token "+bad, first, 422, "not_reloaded", "")
	}
	token, fails = "another-0123456789", nil
	for _, bearer := range []string{first, token} {
		a, status := ask[ReloadAnswer](t, s, "/v1/reload", "{}", "Authorization: Bearer "+bearer)
		if status != 200 || a.Splits[0].Images != 7 || a.Splits[0].Version != 1 {
			t.Errorf("%d, %+v", status, a)
		}
	}
	refuses("the earlier token", first, 401, "unauthorized", "")
	still := readyServer(t, Options{}, map[string]Searcher{"test": newGrowing(7, &open, &most)})
	if e, _ := ask[ErrorAnswer](t, still, "/v1/reload", "{}"); e.Error.Code != "unprocessable" {
		t.Errorf("%+v", e)
	}
}

// A server that watches sees that a file of the split has changed.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		try.Do(t, os.WriteFile(filepath.Join(dir, "test_ids.txt"), []byte(text), 0o644))
	}
	write("a")
	renewed := make(chan bool, 9)
	x := &placed{dir: dir}
	_, _, stop := started(t, Options{Watch: 100 * time.Millisecond,
		Renew: func(_ context.Context, _ string, x Searcher) (Searcher, int, error) {
			renewed <- true
			return x, 0, nil
		}}, x)
	defer stop()
	select {
	case <-renewed:
		t.Error("nothing has changed")
	case <-time.After(300 * time.Millisecond):
	}
	write("a and more")
	select {
	case <-renewed:
	case <-time.After(10 * time.Second):
		t.Error("not seen after 10 s")
	}
}

type placed struct {
	stub
	dir string
}

func (p *placed) Info() search.Info { return search.Info{Data: p.dir} }

// reds has the mean red of a picture as its only feature.
type reds struct{ images map[string]float32 }

func (r *reds) Picture(_ context.Context, p *pictures.RGB) ([]float32, error) {
	return []float32{float32(p.Pix[0])}, nil
}

func (r *reds) Add(ctx context.Context, split, id string, p *pictures.RGB) error {
	if _, there := r.images[id]; there {
		return &data.ChangeError{Text: id + " is there", Kind: data.ErrImageExists}
	}
	if id == "" {
		return &data.ChangeError{Text: "no id"}
	}
	y, err := r.Picture(ctx, p)
	r.images[id] = y[0]
	return err
}

func (r *reds) Remove(_ context.Context, split string, ids []string) error {
	for _, id := range ids {
		if _, there := r.images[id]; !there {
			return &data.ChangeError{Text: "no " + id, Kind: data.ErrNoImage}
		}
		delete(r.images, id)
	}
	return nil
}

// drawn is a picture of one red as a body carries it.
func drawn(t *testing.T, red uint8) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 2, 2))
	for i := range 4 {
		m.Set(i%2, i/2, color.RGBA{red, 0, 0, 255})
	}
	var b bytes.Buffer
	try.Do(t, png.Encode(&b, m))
	return marshal(t, b.Bytes())
}

// embedding is a stub that embeds a feature as itself, and finds the vector as an image.
type embedding struct{ growing }

func (e *embedding) Dims() (search.Dims, error) {
	return search.Dims{Embedding: 1, Regions: 1, Feature: 1}, nil
}
func (e *embedding) ImageRows(_ context.Context, f []float32) ([]float32, error) { return f, nil }
func (e *embedding) Batch(_ context.Context, queries []search.Query) []search.Result {
	out := make([]search.Result, len(queries))
	for i, q := range queries {
		out[i].Hits = []search.Hit{{Index: int(q.Vector[0])}}
	}
	return out
}

// Pictures are searched, embedded, added and removed; the status tells why one is not.
func TestPictures(t *testing.T) {
	var open, most atomic.Int32
	r := &reds{images: map[string]float32{}}
	o := Options{Splits: []string{"test"}, Renew: func(_ context.Context, _ string, x Searcher) (Searcher, int, error) {
		e := &embedding{*newGrowing(len(r.images), &open, &most)}
		return e, 1, nil
	}}
	s := try.Get(New(o))(t)
	x := &embedding{*newGrowing(0, &open, &most)}
	try.Do(t, s.start(Opened{Searchers: map[string]Searcher{"test": x}, Pictures: r, Gallery: r}))
	if a, _ := ask[SearchAnswer](t, s, "/v1/search", `{"picture":`+drawn(t, 77)+`}`); len(a.Hits) != 1 ||
		a.Hits[0].Image != 77 {
		t.Errorf("%+v", a)
	}
	e, _ := ask[EmbedAnswer](t, s, "/v1/embed", `{"pictures":[`+drawn(t, 5)+","+drawn(t, 6)+`]}`)
	if len(e.Embeddings) != 2 || e.Embeddings[1].Values[0] != 6 {
		t.Errorf("%+v", e)
	}
	for i, c := range []struct {
		path, body   string
		status, size int
		code         string
	}{
		{"/v1/images/add", `{"id":"a","picture":` + drawn(t, 1) + `}`, 200, 1, ""},
		{"/v1/images/add", `{"id":"b","split":"test","picture":` + drawn(t, 2) + `}`, 200, 2, ""},
		{"/v1/images/add", `{"id":"a","picture":` + drawn(t, 3) + `}`, 409, 2, "exists"},
		{"/v1/images/add", `{"picture":` + drawn(t, 3) + `}`, 422, 2, "unprocessable"},
		{"/v1/images/add", `{"id":"c","picture":"bm8gcGljdHVyZQ=="}`, 422, 2, "unprocessable"},
		{"/v1/images/add", `{"id":"c"}`, 422, 2, "unprocessable"},
		{"/v1/images/add", `{"id":"c","picture":"?"}`, 400, 2, "bad_request"},
		{"/v1/images/add", `{"id":"c","split":"dev","picture":` + drawn(t, 3) + `}`, 400, 2, "bad_request"},
		{"/v1/images/remove", `{"ids":["nobody"]}`, 404, 2, "no_image"},
		{"/v1/images/remove", `{"ids":[]}`, 400, 2, "bad_request"},
		{"/v1/images/remove", `{"ids":["a"]}`, 200, 1, ""},
		{"/v1/search", `{"picture":"bm8gcGljdHVyZQ=="}`, 422, 1, "unprocessable"},
		{"/v1/search", `{"picture":` + drawn(t, 3) + `,"query":"dog"}`, 400, 1, "bad_request"},
		{"/v1/embed", `{"captions":["dog"],"pictures":[` + drawn(t, 3) + `]}`, 400, 1, "bad_request"},
	} {
		w := do(s, "POST", c.path, c.body)
		if w.StatusCode != c.status || len(r.images) != c.size {
			t.Errorf("%d, %s: %d, %d images", i, c.path, w.StatusCode, len(r.images))
		}
		if c.code == "" {
			if a := read[ChangeAnswer](t, s, c.path, w); a.Images != c.size || a.Split != "test" || a.Version < 2 {
				t.Errorf("%d: %+v", i, a)
			}
		} else if e := read[ErrorAnswer](t, s, c.path, w); e.Error.Code != c.code {
			t.Errorf("%d: %+v", i, e)
		}
	}
	if i, _ := ask[InfoAnswer](t, s, "/v1/info", ""); !i.Pictures || !i.Changes {
		t.Errorf("%+v", i)
	}
	if err := s.ready.Load().close(); err != nil || open.Load() != 0 {
		t.Errorf("%v, %d open", err, open.Load())
	}

	plain := readyServer(t, o, map[string]Searcher{"test": x})
	for path, body := range map[string]string{"/v1/search": `{"picture":` + drawn(t, 3) + `}`,
		"/v1/images/add": `{"id":"a","picture":` + drawn(t, 1) + `}`, "/v1/images/remove": `{"ids":["a"]}`} {
		want := cmp.Or(map[string]string{"/v1/search": "--extractor FILE.onnx"}[path], "--allow-changes")
		if e, _ := ask[ErrorAnswer](t, plain, path, body); !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: %+v", path, e)
		}
	}
}
