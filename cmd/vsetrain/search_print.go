package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/pictures"
)

// searcher asks and prints.
type searcher struct {
	*app
	opt     *searchOptions
	index   *search.Index
	gallery *pictures.Gallery // or nil

	photo     *pictures.RGB     // of --image FILE, or nil
	extractor *search.Extractor // for the photo, or nil
}

// The JSON of a query. Ranks of hits count from 1.
type (
	searchJSON struct {
		Query   string     `json:"query,omitempty"`
		Image   *imageJSON `json:"image,omitempty"` // of a query by image
		File    string     `json:"file,omitempty"`  // of a query by picture
		Match   *int       `json:"match,omitempty"` // rank of its best own caption, from 1
		Unknown []string   `json:"unknown,omitempty"`
		Scored  int        `json:"scored,omitempty"`
		TookMS  float64    `json:"took_ms,omitempty"`
		Hits    []hitJSON  `json:"hits,omitempty"`
		Error   string     `json:"error,omitempty"`
	}
	imageJSON struct {
		search.Image
		File string `json:"file,omitempty"`
	}
	hitJSON struct {
		Rank  int     `json:"rank"`
		Score float64 `json:"score"`
		*imageJSON
		Caption *int   `json:"caption,omitempty"`
		Text    string `json:"text,omitempty"`
		Own     *bool  `json:"own,omitempty"` // the caption belongs to the image of the query
	}
)

func (s *searcher) text(ctx context.Context, query string) error {
	a, err := s.index.Text(ctx, query, s.opt.K)
	if err != nil {
		return err
	}
	if len(a.Unknown) > 0 {
		s.Notef("unknown words, searched as <unk>: %s\n", ui.Clean(strings.Join(a.Unknown, ", ")))
	}
	s.latency(a, "images")
	out := searchJSON{Query: query, Unknown: a.Unknown, Scored: a.Scored, TookMS: milliseconds(a.Took)}
	for i, h := range a.Hits {
		im := s.describe(h.Index)
		out.Hits = append(out.Hits, hitJSON{Rank: i + 1, Score: h.Score, imageJSON: &im})
	}
	s.missing(out.Hits)
	if s.opt.JSON {
		return s.encode(out)
	}
	s.Printf("%s\n", s.Paint(ui.Bold, ui.Clean(query)))
	for _, h := range out.Hits {
		s.Printf("%3d  %8.4f  %s\n", h.Rank, h.Score, s.nameOf(*h.imageJSON))
		for _, c := range h.Captions[:min(s.opt.Captions, len(h.Captions))] {
			s.Printf("%s\n", s.Paint(ui.Faint, s.fit("               "+ui.Clean(c))))
		}
	}
	return nil
}

// image finds captions for an image of the split, or for the picture file that was opened.
func (s *searcher) image(ctx context.Context, id string) error {
	image, heading, out := -1, ui.Clean(id), searchJSON{}
	var a search.Answer
	var err error
	if s.extractor != nil {
		out.File = id
		a, err = s.extractor.OfPicture(ctx, s.photo, s.opt.K)
	} else if image, err = s.index.FindImage(id); err == nil {
		im := s.describe(image)
		heading, out.Image = s.nameOf(im), &im
		a, err = s.index.OfImage(ctx, image, s.opt.K)
	}
	if err != nil {
		return err
	}
	s.latency(a, "captions")
	out.Scored, out.TookMS = a.Scored, milliseconds(a.Took)
	if match := a.Rank + 1; image >= 0 && a.Rank >= 0 {
		out.Match = &match
	}
	ofImage := s.index.Info().Own
	for at, h := range a.Hits {
		of := s.describe(ofImage.ImageOf(h.Index))
		of.Captions = nil
		hit := hitJSON{Rank: at + 1, Score: h.Score, imageJSON: &of, Caption: &h.Index, Text: s.index.Caption(h.Index)}
		if own := of.Index == image; image >= 0 {
			hit.Own = &own
		}
		out.Hits = append(out.Hits, hit)
	}
	if out.Image != nil {
		s.missing([]hitJSON{{imageJSON: out.Image}})
	}
	if s.opt.JSON {
		return s.encode(out)
	}
	s.Printf("%s\n", s.Paint(ui.Bold, heading))
	for _, h := range out.Hits {
		mark := " "
		if h.Own != nil && *h.Own {
			mark = s.Paint(ui.Green, "*")
		}
		s.Printf("%3d  %8.4f %s %s\n", h.Rank, h.Score, mark, s.fit("               " + ui.Clean(h.Text))[15:])
	}
	switch {
	case image < 0:
	case out.Match == nil:
		s.Printf("the shortlist has none of the image's captions\n")
	default:
		s.Printf("the image's captions are marked *; the best has rank %d of %d\n", *out.Match, a.Scored)
	}
	return nil
}

// openPicture opens the picture file of --image and its extractor, unless --image names an image of the split.
func (s *searcher) openPicture(ctx context.Context, x *search.Index) (err error) {
	path := s.opt.Image
	_, unknown := x.FindImage(path)
	if st, e := os.Stat(path); s.opt.Extractor == "" && (unknown == nil || e != nil || !st.Mode().IsRegular()) {
		return nil
	}
	if s.photo, err = pictures.Open(ctx, path); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	s.extractor, err = x.OpenExtractor(s.opt.Extractor, s.getenv)
	return err
}

// describe returns an image with the path of its picture.
func (s *searcher) describe(i int) imageJSON {
	im := imageJSON{Image: s.index.Image(i)}
	if s.gallery != nil {
		im.File, _ = s.gallery.Path(im.ID)
	}
	return im
}

func (s *searcher) nameOf(im imageJSON) string {
	if im.File != "" {
		return ui.Clean(im.File)
	}
	return ui.Clean(im.ID)
}

// missing names the pictures that do not exist.
func (s *searcher) missing(hits []hitJSON) {
	if s.opt.Images == "" {
		return
	}
	var ids []string
	for _, h := range hits {
		if h.File == "" {
			ids = append(ids, ui.Clean(h.ID))
		}
	}
	if len(ids) > 0 {
		s.Notef("%d of %d pictures are not in %s: %s\n", len(ids), len(hits), s.opt.Images,
			strings.Join(ids, ", "))
	}
}

func (s *searcher) failed(query string, err error) {
	if s.opt.JSON {
		_ = s.encode(searchJSON{Query: query, Error: err.Error()}) // a broken pipe shows at the next answer
		return
	}
	s.Errorf("%v", err)
}

func (s *searcher) latency(a search.Answer, what string) {
	s.Notef("%.1f ms, %d %s scored\n", milliseconds(a.Took), a.Scored, what)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (s *searcher) encode(out searchJSON) error { return json.NewEncoder(s.Raw()).Encode(out) }

// fit shortens a line to the width of the terminal; a pipe gets the whole line.
func (s *searcher) fit(line string) string {
	r := []rune(line)
	if !s.OutTTY || len(r) <= s.Width || s.Width < 20 {
		return line
	}
	return string(r[:s.Width-1]) + "…"
}
