package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/system/options"
)

type route struct {
	method, path string
	name         string // operationId of the description
	summary      string
	open         bool // needs no token
	embeds       bool // bodies may be large
	request      any  // zero value of the body; nil for GET
	answer       any  // zero value of the answer; nil where it is text
	statuses     []int
	handle       func(*call) error
}

type call struct {
	*http.Request
	writer http.ResponseWriter
	ready  *ready // of POST
}

// post returns the operation that answers a JSON body with another.
func post[Q, A any](s *Server, path, name, summary string, handle func(*call, Q) (A, error), more ...int) route {
	var q Q
	var a A
	statuses := slices.Concat([]int{200}, more, []int{400, 401, 408, 413, 415, 422, 429, 500, 503, 504})
	return route{method: "POST", path: path, name: name, summary: summary, request: q, answer: a, statuses: statuses,
		handle: func(c *call) error {
			var q Q
			if err := c.decode(&q); err != nil {
				return err
			}
			if err := s.check(reflect.ValueOf(q)); err != nil {
				return err
			}
			a, err := handle(c, q)
			if err != nil {
				return err
			}
			return reply(c.writer, http.StatusOK, a)
		}}
}

func (s *Server) table() []route {
	all := []route{
		post(s, "/v1/search", "search", "Find images for a caption or an embedding.", s.search),
		post(s, "/v1/embed", "embed", "Embed captions or images.", s.embed),
		post(s, "/v1/reload", "reload", "Read the splits again and wait until they are served.", reloadSplits),
		post(s, "/v1/images/add", "addImage", "Add a picture to a gallery.", addImage, 403, 409),
		post(s, "/v1/images/remove", "removeImages", "Remove images from a gallery.", removeImages, 403, 404),
		{method: "GET", path: "/v1/info", name: "info", summary: "Describe what is served.", answer: InfoAnswer{},
			statuses: []int{200, 401, 503}, handle: s.info},
		{method: "GET", path: "/healthz", name: "health", summary: "Report whether queries are answered.", open: true,
			answer: HealthAnswer{}, statuses: []int{200, 503}, handle: s.healthz},
		{method: "GET", path: "/metrics", name: "metrics", summary: "Counters in the text format of Prometheus.",
			statuses: []int{200, 401}, handle: s.metrics},
		{method: "GET", path: "/openapi.json", name: "openapi", summary: "This description.", open: true,
			answer: map[string]any{}, statuses: []int{200}, handle: s.openapi},
	}
	all[1].embeds, all[3].embeds = true, true
	return all
}

// or returns an optional value of a body or its default.
func or[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

func (s *Server) search(c *call, q SearchRequest) (a SearchAnswer, err error) {
	split := or(q.Split, s.opt.Splits[0])
	x := c.ready.shelves[split].take()
	defer x.users.Done()
	ask := search.Query{K: or(q.K, min(10, s.opt.MaxK))}
	switch {
	case q.Query != nil:
		ask.Text, err = *q.Query, checkText("query", *q.Query)
	case q.Vector != nil:
		ask.Vector = q.Vector.Values
	default:
		ask.Vector, err = c.ready.embedPictures(c.Context(), x, [][]byte{q.Picture})
	}
	if err != nil {
		return a, err
	}
	found, err := x.batcher.ask(c.Context(), ask)
	if err != nil {
		return a, err
	}
	a = SearchAnswer{Split: split, Version: x.version, Scored: found.Scored,
		Unknown: append([]string{}, found.Unknown...), Hits: []Hit{}}
	for i, h := range found.Hits {
		image := x.searcher.Image(h.Index)
		a.Hits = append(a.Hits, Hit{Rank: i + 1, Image: h.Index, ID: image.ID, Score: h.Score,
			Captions: append([]string{}, image.Captions[:min(or(q.Captions, 0), len(image.Captions))]...)})
	}
	return a, nil
}

// maxQuery bounds a query or caption in bytes; no text encoder accepts as many words.
const maxQuery = 16 << 10

func checkText(what, text string) error {
	if len(text) > maxQuery {
		return web.BadRequest("%s: expected at most %d bytes, found %d", what, maxQuery, len(text))
	}
	return nil
}

func (s *Server) embed(c *call, q EmbedRequest) (a EmbedAnswer, err error) {
	for i, caption := range q.Captions {
		if err := checkText(fmt.Sprintf("caption %d", i), caption); err != nil {
			return a, err
		}
	}
	served := c.ready.shelves[s.opt.Splits[0]].take()
	defer served.users.Done()
	x := served.searcher
	d, err := x.Dims()
	if err != nil {
		return a, err
	}
	var rows []float32
	var unknown [][]string
	switch {
	case len(q.Captions) > 0:
		rows, unknown, err = x.CaptionRows(c.Context(), q.Captions)
	case len(q.Images) > 0:
		rows, err = embedImages(c.Context(), x, d, q.Images)
	default:
		rows, err = c.ready.embedPictures(c.Context(), served, q.Pictures)
	}
	if err != nil {
		return a, err
	}
	a = EmbedAnswer{Dim: d.Embedding, Embeddings: []FloatArray{}, Unknown: [][]string{}}
	for row := range slices.Chunk(rows, d.Embedding) {
		a.Embeddings = append(a.Embeddings, FloatArray{row, or(q.Encoding, "float") == "base64"})
	}
	for _, words := range unknown {
		a.Unknown = append(a.Unknown, append([]string{}, words...))
	}
	return a, nil
}

func embedImages(ctx context.Context, x Searcher, d search.Dims, images []FloatArray) ([]float32, error) {
	var features []float32
	for i, image := range images {
		if len(image.Values) != d.Regions*d.Feature {
			return nil, web.BadRequest("image %d: expected %d regions of %d, %d numbers, found %d", i, d.Regions,
				d.Feature, d.Regions*d.Feature, len(image.Values))
		}
		features = append(features, image.Values...)
	}
	return x.ImageRows(ctx, features)
}

func (s *Server) info(c *call) error {
	r := s.ready.Load()
	if r == nil {
		return unready("starting")
	}
	a := r.info
	for _, name := range s.opt.Splits {
		x := r.shelves[name].take()
		i := x.searcher.Info()
		a.Splits = append(a.Splits, SplitInfo{Name: name, Images: i.Images, Captions: i.Captions, Version: x.version,
			Features: string(cmp.Or(i.Origin, pretrained.UnknownOrigin)), Note: i.OriginNote,
			Precision: i.Query.Name, Why: i.Query.Why, Change: i.Query.Change,
			AgeSeconds: time.Since(x.since).Seconds()})
		x.users.Done()
	}
	return reply(c.writer, http.StatusOK, a)
}

func (s *Server) healthz(c *call) error {
	a, status := HealthAnswer{s.health()}, http.StatusOK
	if a.Status != "ready" {
		status = http.StatusServiceUnavailable
	}
	return reply(c.writer, status, a)
}

func (s *Server) metrics(c *call) error {
	c.writer.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.counters.write(c.writer)
	if r := s.ready.Load(); r != nil {
		r.writeIndex(c.writer)
	}
	return nil
}

func (s *Server) openapi(c *call) error {
	c.writer.Header().Set("Content-Type", "application/json")
	_, err := c.writer.Write(s.Description())
	return err
}

// decode reads the body, which is one JSON object with known keys.
func (c *call) decode(to any) error {
	if kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return web.Errorf(http.StatusUnsupportedMediaType, "media_type",
			"expected the header Content-Type: application/json")
	}
	b, err := io.ReadAll(c.Body)
	if err != nil {
		return err
	}
	if start := bytes.TrimLeft(b, "\ufeff \t\r\n"); len(start) > 0 && start[0] != '{' && json.Valid(start) {
		return web.BadRequest("expected a JSON object")
	}
	err = jsontext.UnmarshalKnown(b, to)
	if unknown, ok := errors.AsType[*jsontext.UnknownKeyError](err); ok {
		return web.BadRequest("the body: %s", unknownKey(unknown.Key, reflect.TypeOf(to).Elem()))
	}
	if errors.Is(err, jsontext.ErrCut) {
		return web.BadRequest("the body ends within its object")
	}
	if err != nil {
		return web.BadRequest("the body: %v", err)
	}
	return nil
}

// check returns an error for the first value of a body that violates its tags.
func (s *Server) check(body reflect.Value) error {
	var choices []string
	given := 0
	for f, v := range body.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		there := v.Kind() != reflect.Slice && !v.IsZero() || v.Kind() == reflect.Slice && v.Len() > 0
		if f.Tag.Get("choice") != "" {
			if choices = append(choices, name); there {
				given++
			}
		}
		if optional := f.Type.Kind() == reflect.Pointer || f.Tag.Get("choice") != ""; optional && !there {
			continue
		}
		v = reflect.Indirect(v)
		if all := s.words(f); all != nil && !slices.Contains(all, v.String()) {
			return web.BadRequest("%s: expected one of %s, found %.100q", name, strings.Join(all, ", "), v.String())
		}
		least, _ := s.bound(f, "min")
		if most, ok := s.bound(f, "max"); ok {
			n := 0
			if v.CanInt() {
				n = int(v.Int())
			} else {
				n = v.Len()
			}
			if n < least || n > most {
				return web.BadRequest("%s: expected %d to %d, found %d", name, least, most, n)
			}
		}
	}
	if len(choices) > 0 && given != 1 {
		last := len(choices) - 1
		return web.BadRequest("expected %s or %s, one of them", strings.Join(choices[:last], ", "), choices[last])
	}
	return nil
}

// bound returns the value of the tag min or max: a number, or the name of a limit.
func (s *Server) bound(f reflect.StructField, tag string) (n int, ok bool) {
	switch v := f.Tag.Get(tag); v {
	case "":
		return 0, false
	case "max_k":
		return s.opt.MaxK, true
	case "max_items":
		return s.opt.MaxItems, true
	default:
		n, err := strconv.Atoi(v)
		if err != nil {
			panic(err) // of a tag
		}
		return n, true
	}
}

func (s *Server) words(f reflect.StructField) []string {
	switch all := f.Tag.Get("enum"); all {
	case "":
		return nil
	case "splits":
		return s.opt.Splits
	default:
		return strings.Split(all, ",")
	}
}

// unknownKey returns the message for an unknown key of a body.
func unknownKey(key string, body reflect.Type) string {
	var keys []string
	for f := range body.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	text := fmt.Sprintf("unknown key %q; expected %s", key, cmp.Or(strings.Join(keys, ", "), "an empty object"))
	if near := options.Nearest(key, keys); near != "" {
		text += "; did you mean " + near + "?"
	}
	return text
}
