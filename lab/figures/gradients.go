package main

import (
	"cmp"
	"math"
	"slices"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/run/config"
	"vsetrain/loss"
)

// The batch whose gradients are drawn: image 0 has a match, a wrong caption whose score varies, and a rival of it.
const (
	drawnPairs = 8
	matchScore = 0.6 // of every pair
	rivalScore = 0.45
	otherScore = 0.1
	draws      = 64 // averaged for losses that draw
)

// margins draws the margins of the losses that the LSEH paper compares, as their presets set them.
func (b *book) margins() error {
	f := &chart.Figure{Title: "Margin of a negative pair over the semantic similarity of its captions",
		X: "similarity Sim", Y: "margin", Legend: chart.TopLeft}
	for i, preset := range []string{"vsepp/f30k-benchmark", "vsepp/f30k-lmh2", "vsepp/f30k-lseh"} {
		r, err := config.Load(config.Request{Preset: preset})
		if err != nil {
			return err
		}
		o := r.Config.Loss
		rise := 0.0
		if o.HasMargins() {
			rise = o.LSEH.Lambda
		}
		f.Series = append(f.Series, chart.Series{Name: []string{"LMH1", "LMH2", o.Title()}[i], Color: []int{0, 2, 1}[i],
			X: []float64{-1, 1}, Y: []float64{o.Margin - rise, o.Margin + rise}})
	}
	b.files["docs/margins.svg"] = f.Draw().SVG()
	return nil
}

// gradients draws the slopes of every loss over the score of one wrong caption.
func (b *book) gradients() error {
	const columns, width, height, centimetre = 4, 4.25, 3.4, 72 / 2.54
	names := loss.Names()
	rows := (len(names) + columns) / columns // with room for the legend
	d := chart.New(columns*width*centimetre, (float64(rows)*height+1)*centimetre,
		"Slopes of each loss over the score of one wrong caption")
	var xs []float64
	for i := range 101 {
		xs = append(xs, float64(i)/100)
	}
	place := func(i int) (left, top float64) {
		return float64(i%columns)*width*centimetre + 36, (float64(i/columns)*height + 1.3) * centimetre
	}
	across, down := (width-1.6)*centimetre, (height-1.4)*centimetre
	for i, name := range names {
		wrong, match, err := slopes(name, xs)
		if err != nil {
			return err
		}
		left, top := place(i)
		y := chart.Values(min(0, slices.Min(match)), max(0, slices.Max(wrong)), false, false)
		y.From, y.To = top+down, top
		x := chart.Axis{Hi: 1, From: left, To: left + across}
		d.Text(chart.Point{X: left, Y: top - 5}, chart.Start, name, chart.Font{Size: chart.Plain.Size, Bold: true},
			chart.Black)
		for _, v := range y.Ticks(4) {
			d.Line(chart.Grey, 0.6, []chart.Point{{X: x.From, Y: y.At(v)}, {X: x.To, Y: y.At(v)}})
			d.Text(chart.Point{X: left - 4, Y: y.At(v) + 3}, chart.End, chart.Number(v), chart.Plain, chart.Soft)
		}
		for _, v := range []float64{0, 0.5, 1} {
			d.Text(chart.Point{X: x.At(v), Y: y.From + 11}, chart.Middle, chart.Number(v), chart.Plain, chart.Soft)
		}
		d.Line(chart.Soft, 0.6, []chart.Point{{X: x.At(matchScore), Y: y.From}, {X: x.At(matchScore), Y: y.To}}, 2, 3)
		d.Line(chart.Colour(0), 1.4, chart.Trace(xs, match, x, y))
		d.Line(chart.Colour(1), 1.4, chart.Trace(xs, wrong, x, y))
	}
	left, top := place(len(names))
	for i, text := range []string{"at the match, which is pulled", "at the wrong caption, which is pushed",
		"score of the match"} {
		at := chart.Point{X: left, Y: top + float64(i)*14}
		line := []chart.Point{at, {X: left + 20, Y: at.Y}}
		if i < 2 {
			d.Line(chart.Colour(i), 1.4, line)
		} else {
			d.Line(chart.Soft, 0.6, line, 2, 3)
		}
		d.Text(chart.Point{X: left + 25, Y: at.Y + 3}, chart.Start, text, chart.Plain, chart.Black)
	}
	b.files["docs/gradients.svg"] = d.SVG()
	return nil
}

// slopes are the derivatives of a loss with its defaults by the score x of caption 1 with image 0, and by the score of
// the match of image 0, for each x. Gradients of losses that are means over the batch are multiplied by its size.
func slopes(name string, xs []float64) (wrong, match []float64, err error) {
	const n = drawnPairs
	o := loss.DefaultOptions()
	o.Name = name
	dev, err := cpu.New(cpu.Options{Threads: 1, Precision: cpu.FP64})
	if err != nil {
		return nil, nil, err
	}
	defer dev.Close()
	var specs []graph.ParamSpec
	for _, l := range o.Learned() {
		specs = append(specs, graph.ParamSpec{Name: "loss." + l.Name, Shape: []int{1}})
	}
	s, err := graph.NewInstance(dev, specs)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range o.Learned() {
		dev.UploadDoubles(s.Params.Value("loss."+l.Name), []float64{l.Start})
	}
	scores, meanings, images := make([]float64, n*n), make([]float64, n*n), make([]int32, n)
	for i := range scores {
		scores[i] = otherScore
	}
	for i := range n {
		scores[i*n+i], meanings[i*n+i], images[i] = matchScore, 1, int32(i)
	}
	scores[2] = rivalScore
	meanings[n], meanings[n+1] = 0.5, math.Sqrt(0.75) // captions 0 and 1 are half similar
	memory, times := o.Memory(), 1
	if memory != nil {
		times = draws
	}
	if name == "fne" { // it has seen matches of 0.6 ± 0.1 and hardest negatives of 0.3 ± 0.1
		const seen = 1000
		memory.Take(&loss.Batch{}, []float64{seen * matchScore, seen, 2 * seen * 0.3, seen * 0.01, 2 * seen * 0.01})
	}
	g := s.Graph()
	var slope *graph.Node
	var p *graph.Program
	err = cmp.Or(s.FeedDoubles("meanings", meanings), s.FeedInts("images", images), graph.Build(func() error {
		in := g.Input("scores", n, n)
		c := loss.Context{Semantics: g.Input("meanings", n, n), Images: g.InputInts("images", n)}
		c.Captions = c.Images
		by, err := g.Gradients(o.Build(g, in, c, false), in)
		if err != nil {
			return err
		}
		slope = by[0]
		p, err = graph.Compile(s, g, by, nil)
		return err
	}))
	if err != nil {
		return nil, nil, err
	}
	size := 1 / float64(times)
	if o.Mean() {
		size *= n
	}
	for _, x := range xs {
		scores[1] = x
		ofWrong, ofMatch := 0.0, 0.0
		for k := range times {
			if memory != nil {
				err = memory.Feed(s, &loss.Batch{Iter: 1, N: n, Seed: 1, Step: int64(k)})
			}
			if err = cmp.Or(err, s.FeedDoubles("scores", scores)); err == nil {
				err = p.RunAll()
			}
			if err != nil {
				return nil, nil, err
			}
			v := p.Doubles(slope)
			ofMatch, ofWrong = ofMatch+v[0], ofWrong+v[1]
		}
		match, wrong = append(match, ofMatch*size), append(wrong, ofWrong*size)
	}
	return wrong, match, nil
}
