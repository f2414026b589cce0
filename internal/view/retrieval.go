package view

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"vsetrain/data"
	"vsetrain/internal/search"
)

// picked is the network and split that retrieval pages work with, and what the choice offers.
type picked struct {
	Key         networkKey
	Run         *Run
	Runs        []*Run // that have a checkpoint
	Splits      []string
	State       progressOf
	Asked, Open bool
	Info        search.Info
	Pictures    bool // pictures that are sent can be asked for
	NoPicture   int  // images without a picture
	NoFolder    bool
	Data        string
	Page        string // path of the page that asks
	Beside      string // run whose results are shown beside; "" without

	network *openNetwork
	release func()
}

// keyOf reads the choice from a query.
func keyOf(q url.Values) networkKey {
	k := networkKey{q.Get("r"), q.Get("ck"), q.Get("split")}
	if k.Checkpoint == "" {
		k.Checkpoint = checkpointNames[0]
	}
	if k.Split == "" {
		k.Split = "test"
	}
	return k
}

// pick opens what the query names. The caller must call done.
func (s *Server) pick(r *request) (*picked, error) {
	p := &picked{Key: keyOf(r.q), Page: r.URL.Path, release: func() {}}
	runs, _ := s.store.all(r.now)
	for _, run := range runs {
		if len(run.Saved) > 0 {
			p.Runs = append(p.Runs, run)
		}
	}
	if p.Key.Run == "" && r.q.Has("r") || p.Key.Run == "" && len(p.Runs) == 0 {
		return p, nil
	}
	if p.Key.Run == "" { // the run of the best result, as a proposal
		best := slices.MaxFunc(p.Runs, func(a, b *Run) int { return cmpFloat(a.Best.MRecall, b.Best.MRecall) })
		p.Key.Run = best.ID
	}
	if p.Run = s.store.find(p.Key.Run, r.now); p.Run == nil {
		return nil, errNoRun
	}
	if !slices.Contains(checkpointNames, p.Key.Checkpoint) {
		return nil, &badRequest{fmt.Sprintf("checkpoint %q: expected best or last", p.Key.Checkpoint)}
	}
	p.Data = s.opt.Data
	if p.Data == "" && p.Run.Config != nil {
		p.Data = p.Run.Config.Data.Dir
	}
	p.Splits, _ = data.Splits(p.Data) // a folder that cannot be read is an error when it is opened
	if len(p.Splits) == 0 {
		p.Splits = []string{"test", "dev", "train"}
	}
	p.State, p.Asked = s.networks.state(p.Key)
	if b, release := s.networks.acquire(p.Key); b != nil {
		p.network, p.release, p.Open = b, release, true
		p.Info = b.index.Info()
		p.NoPicture, p.NoFolder = len(b.pictures.missing), b.pictures.gallery == nil
		p.Pictures = b.index.HasExtractor()
	}
	return p, nil
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// URL returns the address of a page for the same network and split, with further parameters in pairs.
func (p *picked) URL(page string, more ...any) string {
	q := url.Values{"r": {p.Key.Run}, "ck": {p.Key.Checkpoint}, "split": {p.Key.Split}}
	if p.Beside != "" && page == "/search" {
		q.Set("b", p.Beside)
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(fmt.Sprint(more[i]), fmt.Sprint(more[i+1]))
	}
	return page + "?" + q.Encode()
}

// figure is an image in a page.
type figure struct {
	Index       int
	ID, Caption string
	Picture     string // address, "" without a picture
	URL         string
	Score       float64
	Rank        int // from 1; 0 is none
	Own         bool
	Look        string // address of the attention of a caption to it; "" without
	There       string // where the run beside has it; "" without
}

// figure describes image i.
func (p *picked) figure(i int) figure {
	m := p.network.index.Image(i)
	f := figure{Index: i, ID: m.ID, URL: p.URL("/image", "i", i)}
	if len(m.Captions) > 0 {
		f.Caption = m.Captions[0]
	}
	if p.network.pictures.has(m.ID) {
		f.Picture = p.URL("/picture", "i", i)
	}
	return f
}

// attends reports whether the words of the network attend to regions.
func (p *picked) attends() bool {
	return p.Run != nil && p.Run.Config != nil && p.Run.Config.Model.Traits().WordAttention
}

// line is a caption in a page.
type line struct {
	Index int
	Text  string
	URL   string
	Score float64
	Rank  int // from 1; 0 is none
	Own   bool
	Image figure // of the image it describes
	Look  string // address of its attention to an image; "" where its words attend to nothing
}

func (p *picked) line(c int) line {
	return line{Index: c, Text: p.network.index.Caption(c), URL: p.URL("/search", "c", c),
		Image: p.figure(c / p.Info.CaptionsPerImage)}
}

// load starts to open the network that a form names, and goes back to the page.
func (s *Server) load(r *request) error {
	if err := r.ParseForm(); err != nil {
		return &badRequest{"the form cannot be read"}
	}
	k := keyOf(r.PostForm)
	run := s.store.find(k.Run, r.now)
	if run == nil {
		return errNoRun
	}
	if !slices.Contains(run.Saved, k.Checkpoint) {
		return &badRequest{fmt.Sprintf("%s has no checkpoint %q yet", run.Name, k.Checkpoint)}
	}
	if !isSplit(k.Split) {
		return &badRequest{"split: expected a name such as test"}
	}
	s.networks.load(k, run)
	if back := r.PostForm.Get("back"); back != "" { // it is shown beside another
		r.redirect(back)
		return nil
	}
	p := picked{Key: k}
	r.redirect(p.URL(pageOf(r.PostForm.Get("page"))))
	return nil
}

// rank starts to rank every query.
func (s *Server) rank(r *request) error {
	if err := r.ParseForm(); err != nil {
		return &badRequest{"the form cannot be read"}
	}
	p := picked{Key: keyOf(r.PostForm)}
	s.networks.rank(p.Key)
	r.redirect(p.URL(pageOf(r.PostForm.Get("page"))))
	return nil
}

func pageOf(page string) string {
	if slices.Contains([]string{"/search", "/queries", "/mistakes"}, page) {
		return page
	}
	return "/search"
}

// isSplit reports whether a name may be part of a file name.
func isSplit(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// whole reads a parameter that is a whole number in [0, below).
func (r *request) whole(name string, below int) (int, error) {
	i, err := strconv.Atoi(r.q.Get(name))
	if err != nil || i < 0 || i >= below {
		return 0, &badRequest{fmt.Sprintf("%s: expected a whole number from 0 to %d, found %q", name, below-1,
			r.q.Get(name))}
	}
	return i, nil
}

// show shows a retrieval page, or what has to happen before: choose, wait.
func (p *picked) show(r *request, name string, f frame) error {
	f.Query = p
	if !p.Open || p.State.Ranking {
		f.Part = r.partURL()
	}
	return r.show(name, f)
}

// results is how many results a search shows.
const results = 24

// found is what a network finds for a caption.
type found struct {
	Text    string
	Caption *line // of the split; nil for a caption that was typed
	Hits    []figure
	Answer  *search.Answer // nil without a caption, and for one that cannot be asked
	TookMS  float64
	Problem string
	OwnRank int // of the image that the caption describes
}

// answerOf is what a network found, for the template.
type answerOf struct {
	Found *found
	By    *picked
}

// By pairs it with the network that found it.
func (d found) By(p *picked) answerOf { return answerOf{&d, p} }

// find searches an open network for the caption of a request: typed (q) or one of the split (c).
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
			return d, &badRequest{"the caption is too long; expected at most 4096 bytes"}
		}
		var unknown *search.UnknownError
		var refused *search.QueryError
		switch a, err = p.network.index.Text(r.Context(), d.Text, results); {
		case errors.As(err, &unknown):
			d.Problem = err.Error()
		case errors.As(err, &refused):
			return d, &badRequest{err.Error()}
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

// searchPage finds images for a caption that was typed (q) or is one of the split (c), with another run beside it (b).
func (s *Server) searchPage(r *request) error {
	p, err := s.pick(r)
	if err != nil {
		return err
	}
	defer p.release()
	p.Beside = r.q.Get("b")
	var d struct {
		found
		Examples []line
		Other    *picked // the run beside; nil without
		Beside   found
		Waits    bool // the run beside is being opened
	}
	d.Text = r.q.Get("q")
	if p.Open {
		if d.found, err = p.find(r); err != nil {
			return err
		}
		if d.Answer == nil && d.Problem == "" {
			for i := range 5 {
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

// beside asks another run the same, and notes in the results of both which rank the other gives an image. The caller
// must call release of the picked.
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
			of[i].There = "not among the first"
			if at >= 0 {
				of[i].There = fmt.Sprintf("there %d", at+1)
			}
		}
	}
	there(d.Hits, b.Hits)
	there(b.Hits, d.Hits)
	return o, b, nil
}

// imagePage finds captions for an image, i or the id of one.
func (s *Server) imagePage(r *request) error {
	p, err := s.pick(r)
	if err != nil {
		return err
	}
	defer p.release()
	var d struct {
		Image      figure
		Own        []line // its captions
		Hits       []line
		Rank       int // of the best own caption; 0 until ranked
		Prev, Next string
		TookMS     float64
		Problem    string
	}
	if p.Open {
		i, err := 0, error(nil)
		if id := r.q.Get("id"); id != "" {
			if i, err = p.network.index.FindImage(id); err != nil {
				return &badRequest{err.Error()}
			}
		} else if i, err = r.whole("i", p.Info.Images); err != nil {
			return err
		}
		k := p.Info.CaptionsPerImage
		d.Image = p.figure(i)
		out := s.networks.ranks(p.network)
		for c := i * k; c < (i+1)*k && c < p.Info.Captions; c++ {
			l := p.line(c)
			l.Look = p.look(i, c)
			if out != nil {
				l.Rank = out.Captions[c].Rank + 1
			}
			d.Own = append(d.Own, l)
		}
		if out != nil {
			d.Rank = out.Images[i].Rank + 1
		}
		a, err := p.network.index.OfImage(r.Context(), i, 20)
		if err != nil {
			return err
		}
		for n, h := range a.Hits {
			l := p.line(h.Index)
			l.Score, l.Rank, l.Own, l.Look = h.Score, n+1, h.Index/k == i, p.look(i, h.Index)
			d.Hits = append(d.Hits, l)
		}
		d.TookMS = float64(a.Took.Microseconds()) / 1000
		if i > 0 {
			d.Prev = p.URL("/image", "i", i-1)
		}
		if i+1 < p.Info.Images {
			d.Next = p.URL("/image", "i", i+1)
		}
	}
	return p.show(r, "image", frame{Title: "Image " + d.Image.ID, Tab: "search", Data: d})
}
