package view

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
)

// results is how many results a search shows.
const results = 24

type found struct {
	Text    string
	Caption *line // of the split; nil for a caption that was typed
	Hits    []figure
	Answer  *search.Answer // nil without a caption, and for one that cannot be asked
	TookMS  float64
	Problem string
	OwnRank int // of the image that the caption describes
}

// answerOf pairs a result with the network that found it, for the template.
type answerOf struct {
	Found *found
	By    *picked
}

func (d found) By(p *picked) answerOf { return answerOf{&d, p} }

// find searches images for the caption of a request: typed (q) or a caption of the split (c).
func (p *picked) find(r *request) (d found, err error) {
	d.Text = r.q.Get("q")
	var a search.Answer
	own := -1
	switch {
	case r.q.Has("c"):
		c, err := r.whole("c", p.Info.Captions)
		if err != nil {
			return d, err
		}
		l := p.line(c)
		d.Caption, d.Text, own = &l, l.Text, l.Image.Index
		if a, err = p.network.index.OfCaption(r.Context(), c, results); err != nil {
			return d, err
		}
		d.Answer = &a
		if out := r.s.networks.ranks(p.network); out != nil {
			d.OwnRank = out.Captions[c].Rank + 1
		}
	case d.Text != "":
		if len(d.Text) > 4096 {
			return d, web.BadRequest("the caption is too long; expected at most 4096 bytes")
		}
		var unknown *search.UnknownError
		var refused *search.QueryError
		switch a, err = p.network.index.Text(r.Context(), d.Text, results); {
		case errors.As(err, &unknown):
			d.Problem = err.Error()
		case errors.As(err, &refused):
			return d, web.BadRequest("%v", err)
		case err != nil:
			return d, err
		default:
			d.Answer = &a
		}
	}
	for i, h := range a.Hits {
		f := p.figure(h.Index)
		f.Score, f.Rank, f.Own = h.Score, i+1, h.Index == own
		if d.Caption != nil {
			f.Look = p.look(h.Index, d.Caption.Index)
		}
		d.Hits = append(d.Hits, f)
	}
	d.TookMS = float64(a.Took.Microseconds()) / 1000
	return d, nil
}

// searchPage finds images for a typed caption (q) or a caption of the split (c), also with a second run (b).
func (s *Server) searchPage(r *request, p *picked) error {
	p.Beside = r.q.Get("b")
	var d struct {
		found
		Examples []line
		Other    *picked // the second run; nil without
		Beside   found
		Waits    bool // the second run is opening
	}
	d.Text = r.q.Get("q")
	if p.Open {
		var err error
		if d.found, err = p.find(r); err != nil {
			return err
		}
		if d.Answer == nil && d.Problem == "" {
			for i := range min(5, p.Info.Captions) {
				d.Examples = append(d.Examples, p.line(i*p.Info.Captions/5))
			}
		}
		if p.Beside != "" {
			if d.Other, d.Beside, err = s.beside(r, p, &d.found); err != nil {
				return err
			}
			defer d.Other.release()
			d.Waits = d.Other.State.Loading
		}
	}
	f := frame{Title: "Search", Tab: "search", Data: d}
	if d.Waits {
		f.Part = r.partURL()
	}
	return p.show(r, "search", f)
}

// beside searches with a second run and notes in the results of both at which rank the other has an image. The caller
// must call release of the returned picked.
func (s *Server) beside(r *request, p *picked, d *found) (*picked, found, error) {
	run := s.store.find(p.Beside, r.now)
	if run == nil {
		return nil, found{}, errNoRun
	}
	other := *r
	other.q = url.Values{"r": {run.ID}, "ck": {p.Key.Checkpoint}, "split": {p.Key.Split}}
	if !slices.Contains(run.Saved, p.Key.Checkpoint) && len(run.Saved) > 0 {
		other.q.Set("ck", run.Saved[0])
	}
	o, err := s.pick(&other)
	if err != nil || !o.Open || d.Text == "" {
		return o, found{}, err
	}
	if d.Caption != nil && d.Caption.Index < o.Info.Captions &&
		o.network.index.Caption(d.Caption.Index) == d.Text {
		other.q.Set("c", strconv.Itoa(d.Caption.Index))
	} else {
		other.q.Set("q", d.Text)
	}
	b, err := o.find(&other)
	if err != nil {
		o.release()
		return nil, b, err
	}
	there := func(of, in []figure) {
		for i := range of {
			at := slices.IndexFunc(in, func(f figure) bool { return f.ID == of[i].ID })
			of[i].There = fmt.Sprintf("other run: >%d", results)
			if at >= 0 {
				of[i].There = fmt.Sprintf("other run: %d", at+1)
			}
		}
	}
	there(d.Hits, b.Hits)
	there(b.Hits, d.Hits)
	return o, b, nil
}
