package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/run/training"
)

type lrRangeOptions struct {
	configFlags
	From  float64 `flag:"from" default:"1e-6" above:"0" usage:"first learning rate"`
	To    float64 `flag:"to" default:"1" max:"1000000" usage:"last learning rate"`
	Steps int     `flag:"steps" default:"100" min:"10" usage:"number of steps"`
	Out   string  `flag:"out" arg:"FILE" usage:"draw the curve to FILE (.svg or .pdf)"`
	JSON  string  `flag:"json" arg:"FILE" usage:"write every step to FILE (- is standard output)"`
}

func newCmdLRRange(a *app) *cobra.Command {
	return a.command(&lrRangeOptions{}, &cobra.Command{
		Use:   "lr-range",
		Short: "Find a learning rate: train while it rises, and draw the loss",
		Long: `Train while the learning rate rises by a constant factor each step (Smith, WACV
2017), and show the loss over the rate. At a good rate the loss falls fastest,
well below the rate of the minimum.`,
		Example: `  vsetrain lr-range --config vsepp/f30k-lseh --set data.dir=data/f30k
  vsetrain lr-range --config demo --from 1e-5 --to 0.1 --steps 60 --out range.svg --json range.json`,
	})
}

func (o *lrRangeOptions) run(ctx context.Context, a *app) error {
	if o.From >= o.To {
		return usagef("--from %g --to %g: expected 0 < from < to", o.From, o.To)
	}
	if err := canWrite(o.Out, o.JSON); err != nil {
		return err
	}
	cfg, err := o.load(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	r, w := dryRequest(a, &cfg.Config, "")
	w.quiet = o.JSON == "-"
	bars := phases{app: a}
	rep, err := training.LRRange(ctx, training.RangeRequest{Request: r, From: o.From, To: o.To, Steps: o.Steps,
		Progress: func(done, total int) { bars.show("range test", done, total) }})
	bars.close()
	w.close()
	if err != nil {
		return err
	}
	if o.Out != "" {
		if err := rangeFigure(rep).Draw().Save(o.Out); err != nil {
			return err
		}
	}
	if o.JSON == "-" {
		return json.NewEncoder(a.Raw()).Encode(rep)
	}
	o.print(a, rep)
	if o.JSON == "" {
		return nil
	}
	return atomicfile.WriteFile(o.JSON, indented(rep))
}

// rangeRows is the number of rows of the printed table.
const rangeRows = 20

func (o *lrRangeOptions) print(a *app, rep training.RangeReport) {
	t := ui.NewTable(">step", ">learning rate", ">loss of a pair", ">smoothed", "")
	every := max(1, len(rep.Points)/rangeRows)
	for i, p := range rep.Points {
		note := ""
		switch p.LearningRate {
		case rep.Steepest:
			note = "falls fastest"
		case rep.Lowest:
			note = "lowest"
		}
		if note == "" && i%every != 0 && i != len(rep.Points)-1 {
			continue
		}
		t.Row(fmt.Sprint(p.Step), fmt.Sprintf("%.3g", p.LearningRate), fmt.Sprintf("%.4g", p.Loss),
			fmt.Sprintf("%.4g", p.Smooth), note)
		if note != "" {
			t.Style(ui.Bold, 1, 4)
		}
	}
	t.Write(a.Streams)
	if rep.Steepest == 0 {
		a.Printf("the loss did not fall at any rate: try other rates (--from, --to) or more --steps\n")
	} else {
		a.Printf("the loss falls fastest at %.3g and is lowest at %.3g: try optim.lr=%.1e\n", rep.Steepest, rep.Lowest,
			rep.Steepest)
	}
	if rep.Diverged {
		a.remark("the test ended after %s: the loss grew beyond four times its minimum, or was not finite",
			ui.Count(len(rep.Points), "step"))
	}
	if o.Out != "" {
		a.Printf("curve in %s\n", o.Out)
	}
}

// rangeFigure draws the curve of a range test.
func rangeFigure(rep training.RangeReport) *chart.Figure {
	f := &chart.Figure{Name: "lr-range", Title: "Learning-rate range test", X: "learning rate", Y: "loss of a pair",
		LogX: true, Legend: chart.TopLeft}
	loss, smooth := chart.Series{Name: "loss", Color: 5}, chart.Series{Name: "smoothed", Color: 1}
	for _, p := range rep.Points {
		loss.X, loss.Y = append(loss.X, p.LearningRate), append(loss.Y, p.Loss)
		smooth.X, smooth.Y = append(smooth.X, p.LearningRate), append(smooth.Y, p.Smooth)
	}
	f.Series = []chart.Series{loss, smooth}
	if rep.Steepest > 0 {
		f.Marks = []chart.Mark{{X: rep.Steepest, Color: 0}}
	}
	return f
}
