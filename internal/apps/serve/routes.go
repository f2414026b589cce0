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
	"strings"
	"time"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/run/trained"
	"vsetrain/internal/system/options"
)

// route is one operation.
type route struct {
	method, path string
	name         string // operationId of the description
	summary      string
	open         bool // for requests without a token too
	embeds       bool // its bodies may be large
	request      any  // zero value of the body; nil for GET
	answer       any  // zero value of the answer; nil where it is text
	statuses     []int
	handle       func(*call) error
}

// call is a request that was let in.
type call struct {
	*http.Request
	writer http.ResponseWriter
	ready  *ready // of POST
}

// table lists all operations.
func (s *Server) table() []route {
	post := []int{400, 401, 408, 413, 415, 422, 429, 500, 503, 504}
	return []route{
		{method: "POST", path: "/v1/search", name: "search", summary: "Find images for a caption or an embedding.",
			request: SearchRequest{}, answer: SearchAnswer{}, statuses: append([]int{200}, post...), handle: s.search},
		{method: "POST", path: "/v1/embed", name: "embed", summary: "Embed captions or images.", embeds: true,
			request: EmbedRequest{}, answer: EmbedAnswer{}, statuses: append([]int{200}, post...), handle: s.embed},
		{method: "POST", path: "/v1/reload", name: "reload", request: ReloadRequest{}, answer: ReloadAnswer{},
			summary:  "Read the splits anew and wait until they are served.",
			statuses: append([]int{200}, post...), handle: reloadSplits},
		{method: "POST", path: "/v1/images/add", name: "addImage", embeds: true, request: AddRequest{},
			answer: ChangeAnswer{}, summary: "Add a picture to a gallery.",
			statuses: append([]int{200, 403, 409}, post...), handle: addImage},
		{method: "POST", path: "/v1/images/remove", name: "removeImages", request: RemoveRequest{},
			answer: ChangeAnswer{}, summary: "Remove images from a gallery.",
			statuses: append([]int{200, 403, 404}, post...), handle: removeImages},
		{method: "GET", path: "/v1/info", name: "info", summary: "Tell what is served.", answer: InfoAnswer{},
			statuses: []int{200, 401, 503}, handle: s.info},
		{method: "GET", path: "/healthz", name: "health", summary: "Tell whether queries are answered.", open: true,
			answer: HealthAnswer{}, statuses: []int{200, 503}, handle: s.healthz},
		{method: "GET", path: "/metrics", name: "metrics", summary: "Counters in the text format of Prometheus.",
			statuses: []int{200, 401}, handle: s.metrics},
		{method: "GET", path: "/openapi.json", name: "openapi", summary: "This description.", open: true,
			answer: map[string]any{}, statuses: []int{200}, handle: s.openapi},
	}
}

func (s *Server) search(c *call) error {
	var q SearchRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	k, captions, split := min(10, s.opt.MaxK), 0, s.opt.Splits[0]
	if q.K != nil {
		k = *q.K
	}
	if q.Captions != nil {
		captions = *q.Captions
	}
	if q.Split != nil {
		split = *q.Split
	}
	given := 0
	for _, there := range []bool{q.Query != nil, q.Vector != nil, len(q.Picture) > 0} {
		if there {
			given++
		}
	}
	shelf := c.ready.shelves[split]
	switch {
	case given != 1:
		return badRequest("expected query, vector or picture, one of them")
	case k < 1 || k > s.opt.MaxK:
		return badRequest("k: expected 1 to %d, found %d", s.opt.MaxK, k)
	case captions < 0 || captions > maxCaptions:
		return badRequest("captions: expected 0 to %d, found %d", maxCaptions, captions)
	case q.Query != nil && len(*q.Query) > maxQuery:
		return badRequest("query: expected at most %d bytes, found %d", maxQuery, len(*q.Query))
	case shelf == nil:
		return badRequest("split: expected one of %s, found %.100q", strings.Join(s.opt.Splits, ", "), split)
	}
	x := shelf.take()
	defer x.users.Done()
	ask := search.Query{K: k}
	var err error
	switch {
	case q.Query != nil:
		ask.Text = *q.Query
	case q.Vector != nil:
		ask.Vector = q.Vector.Values
	default:
		if ask.Vector, err = c.ready.embedPictures(c.Context(), x, [][]byte{q.Picture}); err != nil {
			return err
		}
	}
	found, err := x.batcher.ask(c.Context(), ask)
	if err != nil {
		return err
	}
	a := SearchAnswer{Split: split, Version: x.version, Scored: found.Scored,
		Unknown: append([]string{}, found.Unknown...), Hits: []Hit{}}
	for i, h := range found.Hits {
		image := x.searcher.Image(h.Index)
		a.Hits = append(a.Hits, Hit{Rank: i + 1, Image: h.Index, ID: image.ID, Score: h.Score,
			Captions: append([]string{}, image.Captions[:min(captions, len(image.Captions))]...)})
	}
	return reply(c.writer, http.StatusOK, a)
}

// maxQuery bounds a query and a caption in bytes: more words than any text encoder takes.
const maxQuery = 16 << 10

// maxCaptions bounds the captions of an image in an answer.
const maxCaptions = 1000

func (s *Server) embed(c *call) error {
	var q EmbedRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	encoding := "float"
	if q.Encoding != nil {
		encoding = *q.Encoding
	}
	n := max(len(q.Captions), len(q.Images), len(q.Pictures))
	switch {
	case n == 0 || len(q.Captions)+len(q.Images)+len(q.Pictures) > n:
		return badRequest("expected captions, images or pictures, one of them")
	case n > s.opt.MaxItems:
		return badRequest("expected at most %d captions, images or pictures, found %d", s.opt.MaxItems, n)
	case encoding != "float" && encoding != "base64":
		return badRequest("encoding: expected float or base64, found %.100q", encoding)
	}
	for i, caption := range q.Captions {
		if len(caption) > maxQuery {
			return badRequest("caption %d: expected at most %d bytes, found %d", i, maxQuery, len(caption))
		}
	}
	served := c.ready.shelves[s.opt.Splits[0]].take()
	defer served.users.Done()
	x := served.searcher
	d, err := x.Dims()
	if err != nil {
		return err
	}
	a := EmbedAnswer{Dim: d.Embedding, Embeddings: make([]FloatArray, n), Unknown: make([][]string, len(q.Captions))}
	var rows []float32
	switch {
	case len(q.Captions) > 0:
		var unknown [][]string
		if rows, unknown, err = x.CaptionRows(c.Context(), q.Captions); err != nil {
			return err
		}
		for i, words := range unknown {
			a.Unknown[i] = append([]string{}, words...)
		}
	case len(q.Images) > 0:
		rows, err = embedImages(c.Context(), x, d, q.Images)
	default:
		rows, err = c.ready.embedPictures(c.Context(), served, q.Pictures)
	}
	if err != nil {
		return err
	}
	for i := range a.Embeddings {
		a.Embeddings[i] = FloatArray{rows[i*d.Embedding : (i+1)*d.Embedding], encoding == "base64"}
	}
	return reply(c.writer, http.StatusOK, a)
}

func embedImages(ctx context.Context, x Searcher, d search.Dims, images []FloatArray) ([]float32, error) {
	var features []float32
	for i, image := range images {
		if len(image.Values) != d.Regions*d.Feature {
			return nil, badRequest("image %d: expected %d regions of %d, %d numbers, found %d", i, d.Regions, d.Feature,
				d.Regions*d.Feature, len(image.Values))
		}
		features = append(features, image.Values...)
	}
	return x.ImageRows(ctx, features)
}

func (s *Server) info(c *call) error {
	r := s.ready.Load()
	if r == nil {
		return &failure{status: http.StatusServiceUnavailable, code: "starting",
			message: "the server is starting; try again later"}
	}
	a := r.info
	for _, name := range s.opt.Splits {
		x := r.shelves[name].take()
		i := x.searcher.Info()
		a.Splits = append(a.Splits, SplitInfo{Name: name, Images: i.Images, Captions: i.Captions, Version: x.version,
			Features: string(cmp.Or(i.Origin, trained.UnknownOrigin)), Note: i.OriginNote,
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

// decode reads the body, which is one JSON object without keys that are not known.
func (c *call) decode(to any) error {
	if kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &failure{status: http.StatusUnsupportedMediaType, code: "media_type",
			message: "expected the header Content-Type: application/json"}
	}
	b, err := io.ReadAll(c.Body)
	if err != nil {
		return err
	}
	if start := bytes.TrimLeft(b, "\ufeff \t\r\n"); len(start) > 0 && start[0] != '{' && json.Valid(start) {
		return badRequest("expected a JSON object")
	}
	err = jsontext.UnmarshalKnown(b, to)
	if unknown, ok := errors.AsType[*jsontext.UnknownKeyError](err); ok {
		return badRequest("the body: %s", unknownKey(unknown.Key, reflect.TypeOf(to).Elem()))
	}
	if errors.Is(err, jsontext.ErrCut) {
		return badRequest("the body ends within its object")
	}
	if err != nil {
		return badRequest("the body: %v", err)
	}
	return nil
}

// unknownKey says what to write instead of a key that a body does not have.
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
