package view

import "vsetrain/internal/apps/web"

func (s *Server) imagePage(r *request, p *picked) error {
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
				return web.BadRequest("%v", err)
			}
		} else if i, err = r.whole("i", p.Info.Images); err != nil {
			return err
		}
		d.Image = p.figure(i)
		out := s.networks.ranks(p.network)
		for c := range p.Info.Own.Of(i) {
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
		if p.Info.Captions > 0 {
			a, err := p.network.index.OfImage(r.Context(), i, 20)
			if err != nil {
				return err
			}
			d.Hits = p.lines(a.Hits)
			for n := range d.Hits {
				l := &d.Hits[n]
				l.Own, l.Look = l.Image.Index == i, p.look(i, l.Index)
			}
			d.TookMS = float64(a.Took.Microseconds()) / 1000
		}
		if i > 0 {
			d.Prev = p.URL("/image", "i", i-1)
		}
		if i+1 < p.Info.Images {
			d.Next = p.URL("/image", "i", i+1)
		}
	}
	return p.show(r, "image", frame{Title: "Image " + d.Image.ID, Tab: "search", Data: d})
}
