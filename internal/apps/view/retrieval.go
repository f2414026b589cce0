package view

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/system/options"
)

// picked is the network and split of a retrieval page, and the possible choices.
type picked struct {
	Key         networkKey
	Run         *Run
	Runs        []*Run // that have a checkpoint
	Splits      []string
	State       progressOf
	Asked, Open bool
	Info        search.Info
	Pictures    bool // pictures can be uploaded
	NoPicture   int  // images without a picture
	NoFolder    bool
	Data        string
	Page        string // path of the page that asks
	Beside      string // id of the second run; "" without

	network *openNetwork
	release func()
}

// keyOf reads the choice from a query.
func keyOf(q url.Values) networkKey {
	k := networkKey{q.Get("r"), q.Get("ck"), q.Get("split")}
	k.Checkpoint = cmp.Or(k.Checkpoint, checkpointNames[0])
	k.Split = cmp.Or(k.Split, "test")
	return k
}

// picking calls a page with the network that the query names, which stays open meanwhile.
func (s *Server) picking(page func(*request, *picked) error) func(*request) error {
	return func(r *request) error {
		p, err := s.pick(r)
		if err != nil {
			return err
		}
		defer p.release()
		return page(r, p)
	}
}

// pick acquires the network that the query names. The caller must call release.
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
		best := slices.MaxFunc(p.Runs, func(a, b *Run) int { return cmp.Compare(a.Best.MRecall, b.Best.MRecall) })
		p.Key.Run = best.ID
	}
	if p.Run = s.store.find(p.Key.Run, r.now); p.Run == nil {
		return nil, errNoRun
	}
	if !slices.Contains(checkpointNames, p.Key.Checkpoint) {
		return nil, web.BadRequest("checkpoint %q: expected best or last", p.Key.Checkpoint)
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

type figure struct {
	Index       int
	ID, Caption string
	Picture     string // address, "" without a picture
	URL         string
	Score       float64
	Rank        int // from 1; 0 is none
	Own         bool
	Look        string // address of the attention of a caption to it; "" without
	There       string // its rank in the second run; "" without
}

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
	Look  string // address of its attention to an image; "" without
}

func (p *picked) line(c int) line {
	return line{Index: c, Text: p.network.index.Caption(c), URL: p.URL("/search", "c", c),
		Image: p.figure(p.Info.Own.ImageOf(c))}
}

// lines returns the captions that a query found.
func (p *picked) lines(hits []search.Hit) (all []line) {
	for n, h := range hits {
		l := p.line(h.Index)
		l.Score, l.Rank = h.Score, n+1
		all = append(all, l)
	}
	return all
}

// load starts to open the network that a form names, and redirects to the page of the form.
func (s *Server) load(r *request) error {
	if err := r.ParseForm(); err != nil {
		return web.BadRequest("the form cannot be read")
	}
	k := keyOf(r.PostForm)
	run := s.store.find(k.Run, r.now)
	if run == nil {
		return errNoRun
	}
	if !slices.Contains(run.Saved, k.Checkpoint) {
		return web.BadRequest("%s has no checkpoint %q yet", run.Name, k.Checkpoint)
	}
	if !isSplit(k.Split) {
		return web.BadRequest("split: expected a name such as test")
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

func (s *Server) rank(r *request) error {
	if err := r.ParseForm(); err != nil {
		return web.BadRequest("the form cannot be read")
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
	i, err := options.ParseInt(r.q.Get(name))
	if err != nil || i < 0 || i >= below {
		return 0, web.BadRequest("%s: expected a whole number from 0 to %d, found %q", name, below-1,
			r.q.Get(name))
	}
	return i, nil
}

// show shows a retrieval page, or the form to choose a network, or its progress.
func (p *picked) show(r *request, name string, f frame) error {
	f.Query = p
	if !p.Open || p.State.Ranking {
		f.Part = r.partURL()
	}
	return r.show(name, f)
}
