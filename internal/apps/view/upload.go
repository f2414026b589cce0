package view

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"

	"vsetrain/data"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/pictures"
)

// maxUpload bounds the form of an uploaded picture, in bytes.
const maxUpload = 32 << 20

// index is a search.Index that accepts pictures too. The first picture opens the model that computes their features.
type index struct {
	*search.Index
	model  string // of Options.Extractor
	getenv func(string) string

	turn      *pictures.Turn // also guards extractor
	extractor *search.Extractor
}

// OfPicture finds captions for an encoded picture: JPEG, PNG, WebP or GIF.
func (x *index) OfPicture(ctx context.Context, b []byte, k int) (a search.Answer, err error) {
	err = x.turn.Decode(ctx, b, func(p *pictures.RGB, err error) error {
		if err != nil {
			return web.BadRequest("%v", err)
		}
		if x.extractor == nil {
			if x.extractor, err = x.OpenExtractor(x.model, x.getenv); err != nil {
				return err
			}
		}
		a, err = x.extractor.OfPicture(ctx, p, k)
		return err
	})
	return a, err
}

// HasExtractor reports whether there is a model for pictures: named, or recorded in the data set.
func (x *index) HasExtractor() bool {
	i := x.Info()
	_, err := os.Stat(data.ExtractorFile(i.Data, i.Split))
	return x.model != "" || err == nil
}

// Close releases the network and the model.
func (x *index) Close() error {
	if x.extractor != nil {
		x.extractor.Close()
	}
	return x.Index.Close()
}

// openIndex opens a network and encodes its split.
func (o *Options) openIndex(ctx context.Context, so search.Options) (searcher, error) {
	x, err := search.Open(so)
	if err != nil {
		return nil, err // not a nil *search.Index in the interface
	}
	if err := x.Prepare(ctx, x.Info().Queries); err != nil {
		x.Close()
		return nil, err
	}
	return &index{Index: x, model: o.Extractor, getenv: o.Getenv, turn: pictures.NewTurn()}, nil
}

// uploadPage finds captions for the picture of a form. It ignores the file name and does not store the picture.
func (s *Server) uploadPage(r *request, p *picked) error {
	if !p.Open {
		return web.BadRequest("open the network first")
	}
	b, err := uploaded(r)
	if err != nil {
		return err
	}
	a, err := p.network.index.OfPicture(r.Context(), b, 20)
	if err != nil {
		return err
	}
	d := struct {
		Hits   []line
		TookMS float64
	}{p.lines(a.Hits), float64(a.Took.Microseconds()) / 1000}
	p.Page = "/search" // where the choice of another network leads
	return r.show("upload", frame{Title: "Your image", Tab: "search", Query: p, Data: d})
}

func uploaded(r *request) ([]byte, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, web.BadRequest("expected a form with a picture")
	}
	var part *multipart.Part
	for part == nil || part.FormName() != "picture" {
		if part, err = parts.NextPart(); err != nil {
			return nil, tooLarge(err, "expected a form with a picture")
		}
	}
	b, err := io.ReadAll(part)
	if err == nil { // the server notices that a client has gone only after reading all of the request
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		return nil, tooLarge(err, "the picture did not arrive whole")
	}
	return b, nil
}

func tooLarge(err error, otherwise string) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return web.BadRequest("the picture is too large; expected at most %d MiB", maxUpload>>20)
	}
	return web.BadRequest("%s", otherwise)
}

// afterUpload redirects from the address of the form, which has no page, to the search.
func (s *Server) afterUpload(r *request) error {
	r.redirect("/search?" + r.URL.RawQuery)
	return nil
}
