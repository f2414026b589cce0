package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/csvfile"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/analysis"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

type reportOptions struct {
	Runs             []string `args:"[LABEL=]RUN" optional:"yes"`
	reportOutput     `group:"Output"`
	reportComparison `group:"Comparison"`
	reportTest       `group:"Test split"`
	reportPictures   `group:"Negatives, attention and pictures"`
	Suspects         string   `flag:"suspects" arg:"FILE" usage:"rank the training captions of the run by how likely they are wrong, into FILE (.csv; docs/losses.md)" group:"Noise"`
	Timing           []string `flag:"timing" arg:"FILE" usage:"draw the computation times in FILE, from 'vsetrain bench --samples'" group:"Computation time"`
	Data             string   `flag:"data" arg:"DIR" usage:"DIR of the data set for --test, --hardest and --attention" empty:"each run's" group:"Data"`
	Split            string   `flag:"split" arg:"SPLIT" usage:"split of --hardest (default: train) and --attention (default: test)" group:"Data"`
	perImageFlag     `group:"Data"`
	deviceFlags

	bars     phases
	pictures *report.Pictures // of Images, or nil
}

// reportOutput says where a report is written.
type reportOutput struct {
	Out    string `flag:"out" arg:"DIR" usage:"write the page, tables (Markdown, LaTeX, CSV) and figures (SVG, PDF, CSV) into DIR"`
	HTML   string `flag:"html" arg:"FILE" usage:"write one self-contained page to FILE"`
	Format string `flag:"format" enum:"text|markdown|latex|csv" default:"text" usage:"format of the printed tables"`
	Curves string `flag:"curves" arg:"FILE" usage:"draw M-Recall over epochs to FILE (.svg or .pdf); of several networks, the first"`
}

// reportComparison says how runs are compared.
type reportComparison struct {
	Base        string  `flag:"base" arg:"RUN" usage:"compare every setting of a network with RUN's, instead of every LSEH with every other loss"`
	Primary     string  `flag:"primary" arg:"MEASURE@SPLIT" usage:"primary measure of the study, such as t2i_r1@dev" empty:"m_recall, on the test split with --test"`
	Equivalence float64 `flag:"equivalence" arg:"POINTS" min:"0" usage:"also test whether settings differ by less than POINTS of recall"`
	After       []int   `flag:"after" arg:"EPOCHS" list:"," min:"1" usage:"compare M-Recall on dev after these EPOCHS across seeds"`
	Pass        float64 `flag:"pass" arg:"M-RECALL" min:"0" usage:"compare the epochs needed to pass this M-RECALL on dev across seeds"`
	OrEqual     bool    `flag:"or-equal" usage:"count the epochs needed to reach the best of the base, not to exceed it"`
	Paper       bool    `flag:"paper" usage:"show how far R@1, R@5 and R@10 lie apart, beside their mean, as the LSEH paper does"`
}

// reportTest says what is measured on the test split.
type reportTest struct {
	Test       bool     `flag:"test" usage:"measure the best weights of every run on the test split"`
	Judgements []string `flag:"judgements" arg:"FILE" with:"test" usage:"also measure by a FILE or folder of judgements with several positives"`
	Diagnose   bool     `flag:"diagnose" with:"test" usage:"show where the recalls come from (docs/reports.md)"`
}

// reportPictures selects what is shown of single captions and images.
type reportPictures struct {
	Hardest   bool     `flag:"hardest" usage:"show the hardest negatives of a caption under two losses of each network"`
	Query     int      `flag:"query" arg:"LINE" min:"0" usage:"LINE of the caption for --hardest, from 1; 0 takes the caption with the largest hinges in a batch"`
	Batch     int      `flag:"batch" min:"0" usage:"pairs in the batch of --hardest; 0 takes the run's"`
	Top       int      `flag:"top" default:"8" min:"1" usage:"negatives to show"`
	Semantics string   `flag:"semantics" arg:"FILE" usage:"semantic vectors of the captions of --split" empty:"SPLIT_svd.npy in the data folder"`
	Attention []string `flag:"attention" arg:"ID" usage:"show where VSRN looks in the image with this ID, and where the words of its first caption look in SAF, SGR, GSMN and SCAN"`
	Images    string   `flag:"images" arg:"DIR" usage:"DIR of pictures, named after the image ids"`
}

func newCmdReport(a *app) *cobra.Command {
	return a.command(&reportOptions{}, &cobra.Command{
		Use:   "report [LABEL=]RUN... | FOLDER",
		Short: "Turn runs into the tables and figures of the paper",
		Long: `Compare runs, finished or still training: recalls, learning curves, training
efficiency and unique hard negatives; on request also attention, the hardest
negatives of a caption and computation time.`,
		Example: `  vsetrain report runs/vsepp-f8k-benchmark runs/vsepp-f8k-lseh
  vsetrain report runs --test --out report
  vsetrain report runs --test --diagnose --judgements eccv_caption/data --out report
  vsetrain report runs/lmh1 runs/lseh --hardest --split test --images data/f8k/pictures --html report.html
  vsetrain report runs/vsrn-lseh --attention 1056338697_4f7d7ce270.jpg --images data/f8k/pictures --out report`,
	})
}

func (o *reportOptions) arguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 && len(o.Timing) == 0 {
		return usagef("expected at least one run directory, a folder that holds some, or --timing")
	}
	o.Runs = args
	return nil
}

func (o *reportOptions) check(*app) (err error) {
	if strings.HasSuffix(o.Primary, "@test") && !o.Test {
		return usagef("--primary %s is of the test split: add --test", o.Primary)
	}
	if i := slices.IndexFunc(o.Judgements, eval.IsRatings); i >= 0 {
		return usagef("--judgements: %s holds ratings, with which 'vsetrain eval --judgements' measures agreement; "+
			"expected judgements with several positives (.json)", o.Judgements[i])
	}
	if o.Images != "" {
		if o.pictures, err = report.OpenPictures(o.Images); err != nil {
			return fmt.Errorf("--images: %w", err)
		}
	}
	return canWrite(o.HTML, o.Curves, o.Suspects)
}

func (o *reportOptions) run(ctx context.Context, a *app) error {
	runs, err := openRuns(a, o.Runs)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	o.bars = phases{app: a}
	defer o.bars.close()
	sets := report.Collect(runs)
	for _, d := range sets {
		for _, line := range d.Repeated() {
			a.Warnf("%s", line)
		}
		if o.Test {
			if err := o.measure(ctx, a, d.Runs()); err != nil {
				return err
			}
		}
	}
	opt := report.Options{OrEqual: o.OrEqual, Paper: o.Paper, Equivalence: o.Equivalence, After: o.After, Pass: o.Pass,
		Pictures: o.pictures}
	if o.Primary != "" {
		if opt.Primary, err = report.ParsePrimary(o.Primary); err != nil {
			return usagef("--primary: %v", err)
		}
	}
	if o.Base != "" {
		if err := report.SetBase(sets, o.Base); err != nil {
			return usagef("--base: %v", err)
		}
	}
	for _, path := range o.Timing {
		t, err := report.OpenTiming(path)
		if err != nil {
			return err
		}
		opt.Timing = append(opt.Timing, t)
	}
	if err := o.suspects(ctx, a, runs); err != nil {
		return err
	}
	if opt.Hardest, err = o.hardest(ctx, a, sets); err != nil {
		return err
	}
	if opt.Attention, opt.Words, err = o.attention(ctx, a, sets); err != nil {
		return err
	}
	o.bars.close()
	r, err := report.Build(sets, opt)
	if err != nil {
		return err
	}
	warning, err := opt.Pictures.Missing()
	if err != nil {
		return fmt.Errorf("--images: %w", err)
	}
	if warning != "" {
		a.Errorf("%s", warning)
	}
	return o.write(a, r, sets)
}

// runArg is a run directory that an argument names.
type runArg struct {
	arg, label, dir string
	run             bool // dir holds a run
}

// expandRuns splits [LABEL=]RUN arguments, and replaces a folder of runs by the runs.
func expandRuns(args []string) (out []runArg) {
	for _, arg := range args {
		label, root := "", arg
		if l, d, ok := strings.Cut(arg, "="); ok && !strings.ContainsAny(l, `/\`) {
			if _, err := os.Stat(arg); err != nil {
				label, root = l, d
			}
		}
		below, _ := runfs.FindRuns(root)
		for _, id := range below {
			dir := filepath.Join(root, filepath.FromSlash(id))
			out = append(out, runArg{arg: dir, label: label, dir: dir, run: true})
		}
		if len(below) == 0 {
			out = append(out, runArg{arg: arg, label: label, dir: root})
		}
	}
	return out
}

// openRuns opens the runs of [LABEL=]RUN arguments. It skips runs that cannot be read, with a warning, unless no run is
// left. A folder without runs is an error.
func openRuns(a *app, args []string) ([]*report.Run, error) {
	var runs []*report.Run
	var left []error
	seen := map[string]string{}
	for _, x := range expandRuns(args) {
		abs, err := filepath.Abs(x.dir)
		if err != nil {
			return nil, err
		}
		if before, twice := seen[abs]; twice {
			return nil, usagef("%s and %s are one run; name it once", before, x.arg)
		}
		seen[abs] = x.arg
		r, err := report.Open(x.dir)
		switch {
		case err == nil:
			r.Label = x.label
			runs = append(runs, r)
		case x.run:
			left = append(left, err)
		default:
			return nil, err
		}
	}
	if len(runs) == 0 && len(left) > 0 {
		return nil, errors.Join(left...)
	}
	for _, err := range left {
		a.Warnf("left out: %v", err)
	}
	return runs, nil
}

// measure measures the runs on the test split, except runs without weights.
func (o *reportOptions) measure(ctx context.Context, a *app, runs []*report.Run) error {
	for _, r := range runs {
		q := evaluate.Request{Data: o.Data, PerImage: o.PerImage, Judgements: o.Judgements, Diagnose: o.Diagnose,
			Batch: 128, Device: o.Device, BLAS: a.getenv("VSETRAIN_BLAS"), Warn: a.warn, Progress: o.bars.show}
		if len(r.Validations) == 0 {
			a.Errorf("%s has no validation yet, so no best weights: the test recalls omit it", r.Dir)
			continue
		}
		if err := r.MeasureTest(ctx, q); err != nil {
			return fmt.Errorf("--test: %w", err)
		}
	}
	return nil
}

func (o *reportOptions) request(a *app, split string) pretrained.AnalysisRequest {
	return pretrained.AnalysisRequest{Data: o.Data, PerImage: o.PerImage, Split: cmp.Or(o.Split, split),
		Device: o.Device, BLAS: a.getenv("VSETRAIN_BLAS"), Warn: a.warn}
}

// suspects writes the training captions of a run in order of their probability to be wrong (--suspects).
func (o *reportOptions) suspects(ctx context.Context, a *app, runs []*report.Run) error {
	if o.Suspects == "" {
		return nil
	}
	if len(runs) != 1 {
		return usagef("--suspects: expected one run, found %d", len(runs))
	}
	list, err := analysis.Suspects(ctx, o.request(a, "train"), runs[0].Dir, o.bars.show)
	if err != nil {
		return err
	}
	o.bars.close()
	rows := [][]string{{"caption", "image_id", "probability", "loss"}}
	for _, s := range list {
		rows = append(rows, []string{strconv.Itoa(s.Caption), s.ImageID,
			strconv.FormatFloat(s.Probability, 'g', 6, 64), strconv.FormatFloat(s.Loss, 'g', 6, 64)})
	}
	write := func(w io.Writer) error { return csvfile.NewWriter(w).WriteAll(rows) }
	if err := atomicfile.WriteFile(o.Suspects, write); err != nil {
		return err
	}
	likely := slices.IndexFunc(list, func(s analysis.Suspect) bool { return s.Probability <= 0.5 })
	a.Errorf("%s: %d of %d training captions are probably wrong", o.Suspects, likely, len(list))
	return nil
}

func (o *reportOptions) hardest(ctx context.Context, a *app,
	sets []*report.DataSet) (map[*report.DataSet][]*analysis.Hardest, error) {
	if !o.Hardest && o.Query == 0 {
		return nil, nil
	}
	out := map[*report.DataSet][]*analysis.Hardest{}
	for _, d := range sets {
		for _, pair := range d.Pairs() {
			q := analysis.HardestRequest{AnalysisRequest: o.request(a, "train"), Semantics: o.Semantics,
				Query: o.Query, Batch: o.Batch, Top: o.Top}
			for _, r := range pair {
				q.Runs = append(q.Runs, r.Dir)
			}
			h, err := analysis.HardestNegatives(ctx, q)
			if err != nil {
				return nil, err
			}
			out[d] = append(out[d], h)
		}
	}
	if len(out) == 0 {
		return nil, usagef("--hardest: expected validated runs of one network with two losses")
	}
	return out, nil
}

func (o *reportOptions) attention(ctx context.Context, a *app,
	sets []*report.DataSet) (map[*report.DataSet][]analysis.Attention,
	map[*report.DataSet][]*analysis.WordAttention, error) {
	if len(o.Attention) == 0 {
		return nil, nil, nil
	}
	images := map[*report.DataSet][]analysis.Attention{}
	words := map[*report.DataSet][]*analysis.WordAttention{}
	for _, d := range sets {
		for _, r := range d.Having(func(t models.Traits) bool { return t.Attention }) {
			maps, err := analysis.Attend(ctx, o.request(a, "test"), r.Dir, o.Attention)
			if err != nil {
				return nil, nil, err
			}
			images[d] = append(images[d], maps...)
		}
		for _, r := range d.Having(func(t models.Traits) bool { return t.WordAttention }) {
			maps, err := analysis.AttendWords(ctx, o.request(a, "test"), r.Dir, o.Attention)
			if err != nil {
				return nil, nil, err
			}
			words[d] = append(words[d], maps...)
		}
	}
	if len(images)+len(words) == 0 {
		return nil, nil, usagef("--attention: no run is of a network whose attention is defined: %s",
			strings.Join(models.NamesWhere(func(t models.Traits) bool { return t.Attention || t.WordAttention }), ", "))
	}
	return images, words, nil
}

func (o *reportOptions) write(a *app, r *report.Report, sets []*report.DataSet) error {
	switch o.Format {
	case "markdown":
		a.Print(r.Markdown())
	case "latex":
		a.Print(r.LaTeX())
	case "csv":
		a.Print(r.CSV())
	default:
		var text strings.Builder
		if err := r.Text(&text, func(s string) string { return a.Paint(ui.Bold, s) }); err != nil {
			return err
		}
		a.Show(text.String())
	}
	say := func(format string, args ...any) {
		if o.Format == "text" {
			a.Printf(format, args...)
		}
	}
	if o.Curves != "" {
		for _, d := range sets {
			figures := d.Curves(d.Comparisons(o.OrEqual))
			if len(figures) == 0 {
				continue
			}
			if err := figures[0].Draw().Save(o.Curves); err != nil {
				return err
			}
			say("curves in %s\n", o.Curves)
			break
		}
	}
	if o.HTML != "" {
		if err := atomicfile.WriteFile(o.HTML, func(w io.Writer) error { return r.HTML(w, a.Now()) }); err != nil {
			return err
		}
		say("page in %s\n", o.HTML)
	}
	if o.Out != "" {
		n, err := r.Write(o.Out, a.Now())
		if err != nil {
			return err
		}
		say("%d files in %s, the page in %s\n", n, o.Out, filepath.Join(o.Out, "index.html"))
	}
	return nil
}
