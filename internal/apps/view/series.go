package view

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/run/records"
)

// logFrom is the ratio of the largest to the smallest value at which a plot of losses or norms gets a logarithmic axis.
const logFrom = 50

// class is colour i; the palette begins again after its last colour.
func class(i int) string { return strings.TrimPrefix(chart.Variable(i), "--") }

// look returns the style of curve i of several: a colour and dashes, which distinguish curves without colours and where
// they overlap.
func look(i int) string { return class(i) + " " + chart.DashClass(i) }

// steps returns the curve of a value of every logged step.
func (r *Run) steps(name, class string, value func(*records.StepRecord) float64) curve {
	c := curve{Name: name, Class: class, X: make([]float64, len(r.Steps)), Y: make([]float64, len(r.Steps))}
	for i := range r.Steps {
		c.X[i], c.Y[i] = r.Steps[i].Epoch, value(&r.Steps[i])
	}
	return c
}

func (r *Run) validations(name, class string, value func(*records.ValidationRecord) float64) curve {
	c := curve{Name: name, Class: class, X: make([]float64, len(r.Validations)), Y: make([]float64, len(r.Validations))}
	for i := range r.Validations {
		c.X[i], c.Y[i] = r.Validations[i].Epoch, value(&r.Validations[i])
	}
	return c
}

// shares returns the curve of a value of the steps that have it.
func (r *Run) shares(name, class string, value func(*records.StepRecord) *float64) curve {
	c := curve{Name: name, Class: class}
	for i := range r.Steps {
		if v := value(&r.Steps[i]); v != nil {
			c.X, c.Y = append(c.X, r.Steps[i].Epoch), append(c.Y, *v)
		}
	}
	return c
}

func hardFalse(s *records.StepRecord) *float64    { return s.HardFalse }
func allFalse(s *records.StepRecord) *float64     { return s.AllFalse }
func mRecall(v *records.ValidationRecord) float64 { return v.MRecall }
func learningRate(s *records.StepRecord) float64  { return s.LearningRate }
func hardCaptions(s *records.StepRecord) float64  { return 100 * float64(s.HardCaptions) / s.Pairs() }
func hardImages(s *records.StepRecord) float64    { return 100 * float64(s.HardImages) / s.Pairs() }
func i2tR1(v *records.ValidationRecord) float64   { return v.I2T.R1 }
func i2tR5(v *records.ValidationRecord) float64   { return v.I2T.R5 }
func i2tR10(v *records.ValidationRecord) float64  { return v.I2T.R10 }
func t2iR1(v *records.ValidationRecord) float64   { return v.T2I.R1 }
func t2iR5(v *records.ValidationRecord) float64   { return v.T2I.R5 }
func t2iR10(v *records.ValidationRecord) float64  { return v.T2I.R10 }

// loss returns the loss per pair, because the last batch of an epoch has fewer pairs. Without a configuration, loss and
// gradNorm are as logged.
func (r *Run) loss(name, class string) curve {
	return r.steps(name, class, func(s *records.StepRecord) float64 {
		return s.Captioning + (s.Loss-s.Captioning)/r.summed(s)
	})
}

func (r *Run) gradNorm(name, class string) curve {
	return r.steps(name, class, func(s *records.StepRecord) float64 { return s.GradNorm / r.summed(s) })
}

// summed returns the number of pairs over which the loss of a step is a sum: 1 for a mean. The loss of a captioning
// branch is a mean.
func (r *Run) summed(s *records.StepRecord) float64 {
	if r.Config == nil || r.Config.Loss.Mean() {
		return 1
	}
	return s.Pairs()
}

// speed returns captions per second over the logged steps of the epoch before each step, because single steps vary.
func (r *Run) speed() curve {
	c := curve{Name: "captions per second", Class: class(6)}
	first, pairs, ms := 0, 0.0, 0.0
	for i := range r.Steps {
		s := &r.Steps[i]
		for pairs, ms = pairs+s.Pairs(), ms+s.StepMS; r.Steps[first].Epoch <= s.Epoch-1; first++ {
			pairs, ms = pairs-r.Steps[first].Pairs(), ms-r.Steps[first].StepMS
		}
		if ms > 0 {
			c.X, c.Y = append(c.X, s.Epoch), append(c.Y, 1000*pairs/ms)
		}
	}
	return c
}

// wide reports whether positive values need a logarithmic axis.
func wide(curves ...curve) bool {
	lo, hi := 0.0, 0.0
	for _, c := range curves {
		for _, y := range c.Y {
			if y > 0 && (lo == 0 || y < lo) {
				lo = y
			}
			hi = max(hi, y)
		}
	}
	return lo > 0 && hi/lo >= logFrom
}

// averaged returns a long curve twice: faint, and as a mean over neighbours.
func averaged(c curve) []curve {
	n := len(c.Y) / 40
	if n < 3 {
		return []curve{c}
	}
	mean := curve{Name: fmt.Sprintf("%s (mean of %d)", c.Name, n/2*2+1), Class: c.Class, X: c.X, Y: smooth(c.Y, n)}
	c.Class += " faint"
	return []curve{c, mean}
}

// stairs draws the change of a constant value as a step.
func stairs(c curve) curve {
	out := c
	out.X, out.Y = nil, nil
	for i, y := range c.Y {
		if i > 1 && y != c.Y[i-1] && c.Y[i-1] == c.Y[i-2] {
			out.X, out.Y = append(out.X, c.X[i]), append(out.Y, c.Y[i-1])
		}
		out.X, out.Y = append(out.X, c.X[i]), append(out.Y, y)
	}
	return out
}

// runPlots returns the plots of one run; guess is the M-Recall of random scores, 0 if unknown.
func runPlots(r *Run, guess float64) []*plot {
	const x = "epoch"
	loss, norm := r.loss("loss", class(1)), r.gradNorm("gradient norm", class(2))
	recall := plot{ID: "m_recall", Title: "M-Recall on the validation split", X: x, Y: "%", Guess: guess,
		Curves: []curve{r.validations("M-Recall", class(0), mRecall)}}
	average := curve{Name: "averaged weights", Class: look(1)}
	for _, v := range r.Validations {
		if v.Average != nil {
			average.X, average.Y = append(average.X, v.Epoch), append(average.Y, v.Average.MRecall)
		}
	}
	recall.Curves = append(recall.Curves, average)
	if r.HasBest {
		recall.Marks = []mark{{Name: fmt.Sprintf("best %.2f", r.Best.MRecall), Class: class(0), X: r.Best.Epoch}}
	}
	all := []plot{
		recall,
		{ID: "recalls", Title: "Recalls on the validation split", X: x, Y: "%", Curves: []curve{
			r.validations("image to text R@1", "s0", i2tR1), r.validations("image to text R@5", "s0 mid", i2tR5),
			r.validations("image to text R@10", "s0 low", i2tR10), r.validations("text to image R@1", "s1", t2iR1),
			r.validations("text to image R@5", "s1 mid", t2iR5),
			r.validations("text to image R@10", "s1 low", t2iR10)}},
		{ID: "loss", Title: "Loss per pair", X: x, Log: wide(loss), Curves: averaged(loss)},
		{ID: "grad_norm", Title: "Gradient norm per pair, before clipping", X: x, Log: wide(norm),
			Curves: averaged(norm)},
		{ID: "lr", Title: "Learning rate", X: x, Zero: true,
			Curves: []curve{stairs(r.steps("learning rate", class(3), learningRate))}},
		{ID: "negatives", Title: "Distinct hard negatives per batch", X: x, Y: "% of pairs", Zero: true,
			Curves: append(averaged(r.steps("captions", look(5), hardCaptions)),
				averaged(r.steps("images", look(6), hardImages))...)},
		{ID: "false_negatives", Title: "False negatives according to the semantic vectors", X: x, Y: "%", Zero: true,
			Curves: append(averaged(r.shares("hard negatives", class(1), hardFalse)),
				averaged(r.shares("all negatives", look(6), allFalse))...)},
		{ID: "speed", Title: "Captions per second, averaged over an epoch", X: x, Zero: true,
			Curves: []curve{r.speed()}},
	}
	var out []*plot
	for _, p := range all {
		p.Marks = append(p.Marks, r.warmups(p.ID)...)
		if p := newPlot(p); !p.Empty() {
			out = append(out, p)
		}
	}
	return out
}

// warmups marks the ends of warm-ups that a plot shows. After loss.warmup_epochs the loss changes; after
// optim.warmup_steps the schedule of the learning rate begins. An end that the run has not reached has no mark.
func (r *Run) warmups(id string) (out []mark) {
	if r.Config == nil {
		return nil
	}
	at, done := r.Config.Loss.WarmupEpochs, r.Epochs()
	if at > 0 && float64(at) <= done && (id == "m_recall" || id == "loss" || id == "grad_norm") {
		out = append(out, mark{Name: "end of loss warm-up", Class: class(6), X: float64(at)})
	}
	if n := int64(r.Config.Optim.WarmupSteps); n > 0 && (id == "lr" || id == "grad_norm") {
		for i := range r.Steps {
			if s := &r.Steps[i]; s.Step >= n {
				return append(out, mark{Name: "end of learning rate warm-up", Class: class(7),
					X: s.Epoch * float64(n) / float64(s.Step)})
			}
		}
	}
	return out
}

// quantities are the plots of a comparison.
var quantities = []struct {
	ID, Title, unit string
	log             bool
	curve           func(r *Run, name, class string) curve
}{
	{"m_recall", "M-Recall on the validation split", "%", false, func(r *Run, n, c string) curve {
		return r.validations(n, c, mRecall)
	}},
	{"loss", "Loss per pair", "", true,
		func(r *Run, n, c string) curve { return last(averaged(r.loss(n, c))) }},
	{"lr", "Learning rate", "", true, func(r *Run, n, c string) curve { return stairs(r.steps(n, c, learningRate)) }},
	{"grad_norm", "Gradient norm per pair, before clipping", "", true,
		func(r *Run, n, c string) curve { return last(averaged(r.gradNorm(n, c))) }},
}

func last[T any](c []T) T { return c[len(c)-1] }

// comparePlots draws several runs into each plot. marks are vertical lines of the first plot.
func comparePlots(runs []*Run, marks []mark) []*plot {
	var out []*plot
	for i, q := range quantities {
		p, losses := plot{ID: q.ID, Title: q.Title, X: "epoch", Y: q.unit, Runs: true}, map[string]bool{}
		for k, r := range runs {
			c := q.curve(r, r.Name, look(k))
			if c.Name != r.Name {
				p.Y = "moving average"
			}
			c.Name = r.Name
			same := func(o curve) bool { return slices.Equal(o.X, c.X) && slices.Equal(o.Y, c.Y) }
			if i := slices.IndexFunc(p.Curves, same); i >= 0 && len(c.X) > 0 { // they would hide each other
				p.Curves[i].Name += " = " + r.Name
			} else {
				p.Curves = append(p.Curves, c)
			}
			for _, m := range r.warmups(q.ID) {
				if !slices.Contains(p.Marks, m) {
					p.Marks = append(p.Marks, m)
				}
			}
			if r.Config != nil {
				losses[r.Config.Loss.Name] = true
			}
		}
		if (q.ID == "loss" || q.ID == "grad_norm") && len(losses) > 1 {
			p.Note = "These losses have different scales: compare the shapes of the curves, not their values."
		}
		p.Log = q.log && wide(p.Curves...)
		if i == 0 {
			p.Marks = append(slices.Clone(marks), p.Marks...)
		}
		if p := newPlot(p); !p.Empty() {
			out = append(out, p)
		}
	}
	return out
}

// sparkline returns the M-Recall of a run as a polyline in a box of 96 x 24; one value is a dot.
func sparkline(r *Run) string {
	c := r.validations("", "", mRecall)
	p := newPlot(plot{Curves: []curve{c}})
	if p.Empty() {
		return ""
	}
	c = p.Curves[0]
	c.X, c.Y = thin(c.X, c.Y, 48)
	p.Across.From, p.Across.To, p.Up.From, p.Up.To = 1, 95, 23, 1
	return p.Points(c)
}
