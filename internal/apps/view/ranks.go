package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vsetrain/eval"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/system/options"
)

// pageSize is the number of queries or mistakes on a page.
const (
	pageSize    = 50
	mistakeSize = 12
)

// directions of retrieval.
const (
	textToImage = "t2i"
	imageToText = "i2t"
)

// bin is a bar of the histogram of ranks; ranks count from 1.
type bin struct {
	From, To, Count int
	Y, W            float64 // top and width in a box of 600 units
	URL             string
	Chosen          bool
}

// Name returns the ranks of a bin.
func (b bin) Name() string {
	if b.From == b.To {
		return strconv.Itoa(b.From)
	}
	return fmt.Sprintf("%d\u2013%d", b.From, b.To)
}

// binHeight is the height of a bar with the gap below it.
const binHeight = 40

// histogram counts ranks in bins that widen, beginning with the limits of R@1, R@5 and R@10, up to candidates.
func histogram(of []search.Outcome, candidates int) []bin {
	limits := []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, candidates}
	worst := 0
	for _, o := range of {
		worst = max(worst, o.Rank+1)
	}
	var bins []bin
	from := 1
	for _, to := range limits {
		to = min(to, candidates)
		bins = append(bins, bin{From: from, To: to})
		if to >= worst {
			break
		}
		from = to + 1
	}
	most := 1
	for _, o := range of {
		for i := range bins {
			if b := &bins[i]; o.Rank+1 >= b.From && o.Rank+1 <= b.To {
				b.Count++
				most = max(most, b.Count)
				break
			}
		}
	}
	for i := range bins {
		bins[i].Y, bins[i].W = float64(binHeight*i), 420*float64(bins[i].Count)/float64(most)
	}
	return bins
}

type queryRow struct {
	Text        line   // of a caption
	Image       figure // of an image
	Rank        int
	Margin      float64
	Match, Away float64 // scores of the match and of the best wrong candidate
}

// direction reads which of the two tables a page shows.
func (r *request) direction() string {
	if r.q.Get("dir") == imageToText {
		return imageToText
	}
	return textToImage
}

// paging is what one page shows of a long table, rows [From, To) of Total, and the addresses of its neighbours.
type paging struct {
	Total, From, To int
	Prev, Next      string
}

// paging returns the requested page; url returns the address of page n.
func (r *request) paging(total, size int, url func(n int) string) paging {
	n, _ := options.ParseInt(r.q.Get("page"))
	n = max(0, min(n, (total-1)/size))
	p := paging{Total: total, From: n * size, To: min(total, (n+1)*size)}
	if n > 0 {
		p.Prev = url(n - 1)
	}
	if p.To < total {
		p.Next = url(n + 1)
	}
	return p
}

func (s *Server) queriesPage(r *request, p *picked) error {
	var d struct {
		Dir     string
		Bins    []bin
		Height  int // of the histogram
		Recalls eval.Recalls
		Rows    []queryRow
		paging
		Columns []column
		Filter  string
	}
	d.Dir = r.direction()
	if p.Open && s.networks.ranks(p.network) != nil {
		of := outcomesOf(s.networks.ranks(p.network), d.Dir)
		ranks := make([]int, len(of))
		for i, o := range of {
			ranks[i] = o.Rank
		}
		candidates := p.Info.Images
		if d.Dir == imageToText {
			candidates = p.Info.Captions
		}
		d.Recalls, d.Bins = eval.NewRecalls(ranks), histogram(of, candidates)
		d.Height = binHeight * len(d.Bins)
		d.Filter = r.q.Get("bin")
		for i := range d.Bins {
			b := &d.Bins[i]
			b.URL = p.URL("/queries", "dir", d.Dir, "bin", b.From)
			if b.Chosen = d.Filter == strconv.Itoa(b.From); b.Chosen {
				of = slices.DeleteFunc(slices.Clone(of), func(o search.Outcome) bool {
					return o.Rank+1 < b.From || o.Rank+1 > b.To
				})
			}
		}
		of = slices.Clone(of)
		if !r.q.Has("sort") { // the worst first
			r.q.Set("sort", "rank")
			r.q.Set("desc", "1")
		}
		sortOutcomes(of, r.q.Get("sort"), r.q.Get("desc") != "")
		d.paging = r.paging(len(of), pageSize, func(n int) string {
			return p.URL("/queries", "dir", d.Dir, "bin", d.Filter, "sort", r.q.Get("sort"), "desc", r.q.Get("desc"),
				"page", n)
		})
		for _, o := range of[d.From:d.To] {
			row := queryRow{Rank: o.Rank + 1, Margin: o.Margin(), Match: o.Match.Score, Away: o.Wrong.Score}
			if d.Dir == textToImage {
				row.Text = p.line(o.Query)
				row.Image = row.Text.Image
			} else {
				row.Image = p.figure(o.Query)
			}
			d.Rows = append(d.Rows, row)
		}
		r.q.Del("page")
		d.Columns = r.columns(column{Key: "query", Text: "Query"}, column{Key: "rank", Text: "Rank", Class: "num"},
			column{Key: "margin", Text: "Behind by", Class: "num"})
	}
	return p.show(r, "queries", frame{Title: "Ranks of the queries", Tab: "search", Data: d})
}

func outcomesOf(out *search.Outcomes, dir string) []search.Outcome {
	if dir == imageToText {
		return out.Images
	}
	return out.Captions
}

func sortOutcomes(of []search.Outcome, key string, down bool) {
	slices.SortStableFunc(of, func(a, b search.Outcome) int {
		c := 0
		switch key {
		case "rank":
			c = a.Rank - b.Rank
		case "margin":
			c = cmp.Compare(a.Margin(), b.Margin())
		default:
			c = a.Query - b.Query
		}
		if down {
			return -c
		}
		return c
	})
}

// ranksFile sends the ranks of all queries in the format of eval --save-ranks.
func (s *Server) ranksFile(r *request, p *picked) error {
	if !p.Open || s.networks.ranks(p.network) == nil {
		return web.BadRequest("the queries are not ranked yet: open the network and rank them first")
	}
	out := s.networks.ranks(p.network)
	var all eval.Ranking
	all.I2T, all.I2TTop = ranking(out.Images)
	all.T2I, all.T2ITop = ranking(out.Captions)
	name := strings.Map(func(c rune) rune {
		if c == '/' || c == '"' || c == '\\' || c < ' ' || c > '~' {
			return '-'
		}
		return c
	}, p.Run.Name) + "-" + p.Key.Checkpoint + "-" + p.Key.Split + "-ranks.csv"
	h := r.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	return eval.WriteRanksCSV(r.w, all)
}

// ranking returns the ranks of queries, and the candidate that each finds first.
func ranking(of []search.Outcome) (ranks, top []int) {
	for _, o := range of {
		first := o.Wrong.Index
		if o.Rank == 0 {
			first = o.Match.Index
		}
		ranks, top = append(ranks, o.Rank), append(top, first)
	}
	return ranks, top
}

// mistake is a query with its match and the best wrong candidate.
type mistake struct {
	Query        line   // of a caption
	Image        figure // the query, where that is an image
	Right, Wrong figure // images of a caption
	RightLine    line   // captions of an image
	WrongLine    line
	Rank         int
	Margin       float64
}

// mistakesPage shows the queries whose best wrong candidate is the furthest ahead of the match.
func (s *Server) mistakesPage(r *request, p *picked) error {
	var d struct {
		Dir      string
		Mistakes []mistake
		paging
	}
	d.Dir = r.direction()
	if p.Open && s.networks.ranks(p.network) != nil {
		of := search.Hardest(outcomesOf(s.networks.ranks(p.network), d.Dir), p.Info.Captions)
		d.paging = r.paging(len(of), mistakeSize, func(n int) string {
			return p.URL("/mistakes", "dir", d.Dir, "page", n)
		})
		for _, o := range of[d.From:d.To] {
			m := mistake{Rank: o.Rank + 1, Margin: o.Margin()}
			if d.Dir == textToImage {
				m.Query = p.line(o.Query)
				m.Right, m.Wrong = p.figure(o.Match.Index), p.figure(o.Wrong.Index)
				m.Right.Score, m.Wrong.Score = o.Match.Score, o.Wrong.Score
			} else {
				m.Image = p.figure(o.Query)
				m.RightLine, m.WrongLine = p.line(o.Match.Index), p.line(o.Wrong.Index)
				m.RightLine.Score, m.WrongLine.Score = o.Match.Score, o.Wrong.Score
			}
			d.Mistakes = append(d.Mistakes, m)
		}
	}
	return p.show(r, "mistakes", frame{Title: "Hardest mistakes", Tab: "search", Data: d})
}
