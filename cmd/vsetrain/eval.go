package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/system/options"
)

type evalOptions struct {
	Checkpoints []string `flag:"checkpoint" arg:"PATH" usage:"run directory or checkpoint, instead of an argument; several form an ensemble"`
	Scores      []string `flag:"scores" arg:"FILE" usage:"score matrix FILE (.npy) to rank, or to add to the ensemble"`
	splitFlag
	Protocol         eval.Protocol `flag:"protocol" enum:"auto|1k|5k|5x1k|whole" default:"auto" usage:"how to compute recalls"`
	Judgements       []string      `flag:"judgements" arg:"FILE" usage:"FILE or folder of judgements with several positives, or FILE of ratings (.txt)"`
	CompatBoxes      bool          `flag:"compat-boxes" usage:"GSMN: use the boxes that its repository's evaluation uses (docs/pair-networks.md)"`
	trainedFlags     `group:"Data and network"`
	evalOutput       `group:"Output"`
	Compare          bool   `flag:"compare" not:"save-scores,save-ranks" usage:"compare the two models or ensembles given as arguments" group:"Comparison"`
	Resamples        int    `flag:"resamples" min:"1" with:"compare" usage:"samples of the bootstrap and of the permutation test" group:"Comparison"`
	Seed             uint64 `flag:"seed" with:"compare" usage:"seed of the resamples" group:"Comparison"`
	publishedOptions `group:"Published checkpoints"`
	rankFlags        `group:"Processes and GPUs"`
	cpuProfile       `group:"CPU profile"`

	sides   [2]evaluate.Request // of --compare: what each argument names
	request evaluate.Request
}

func (o *evalOptions) Defaults() {
	o.deviceFlags.Defaults()
	compare := eval.DefaultCompareOptions()
	o.Resamples, o.Seed = compare.Resamples, compare.Seed
}

// FixedTags replaces the tags of device.precision: auto has another meaning for eval.
func (o *evalOptions) FixedTags(key string) reflect.StructTag {
	if key == "precision" {
		return `enum:"auto|fp32|tf32|bf16|fp64" ` + options.Tag("doc", "auto is fp32, but pairs are scored on a "+
			"processor in bf16 first, and in fp32 if that can change a rank; tf32 is for cuda, fp64 for checking")
	}
	return ""
}

// evalOutput selects what eval writes, and where.
type evalOutput struct {
	JSON       string `flag:"json" arg:"FILE" usage:"write the measures to FILE (- is standard output)"`
	Paper      bool   `flag:"paper" usage:"show how far R@1, R@5 and R@10 lie apart, as the LSEH paper does"`
	SaveScores string `flag:"save-scores" arg:"FILE" usage:"write the score matrix, float32 image x caption, to FILE (.npy)"`
	SaveRanks  string `flag:"save-ranks" arg:"FILE" usage:"write the rank of every query to FILE (.csv or .pth.tar)"`
	Work       string `flag:"work" arg:"DIR" usage:"DIR that keeps the scores of networks that score pairs, tile by tile, so that a killed command can continue"`
}

func newCmdEval(a *app) *cobra.Command {
	o := &evalOptions{}
	c := a.command(o, &cobra.Command{
		Use:   "eval CHECKPOINT...",
		Short: "Measure recalls of a checkpoint or an ensemble",
		Long: `Measure R@1, R@5, R@10, median and mean rank in both directions, their sum and
M-Recall of a network on a split. Several checkpoints form an ensemble: the mean
of their scores is ranked.

A checkpoint is a run directory (its best checkpoint), a folder that 'export --hub' wrote, a .safetensors file of
vsetrain, or a .pth or .pth.tar file of a reference repository. An ensemble can mix networks, and stored score
matrices (--scores) can be members.

--compare A B tests the difference between two checkpoints or stored score matrices query by query: the 95 %
interval of a paired bootstrap over images and the p-value of a paired permutation test. A1,A2 is an ensemble.

--published NAME FILE measures a public checkpoint in the protocols that its authors report, and says of each
recall: equal to the tenth, off by how much, or which quirk of the released evaluation explains the difference
(docs/fidelity.md). --published alone lists the names.

` + pairScorers() + ` score every pair of image and caption, which takes hours on a CPU for MS-COCO's
5,000 x 25,000. --work keeps the scores computed so far; --procs divides the work. docs/evaluation.md describes the
files of --judgements; docs/fidelity.md describes the files of --save-ranks.`,
		Example: `  vsetrain eval runs/vsepp-f30k-lseh
  vsetrain eval runs/a runs/b --data data/coco --split testall --protocol 5x1k --json coco.json
  vsetrain eval runs/saf runs/sgr --data data/coco --split testall --work scored --procs 4
  vsetrain eval model_best.pth.tar --data data/f30k --vocab f30k_vocab.json
  vsetrain eval --scores saf.npy sgr.npy --data data/f30k --save-ranks ranks.csv
  vsetrain eval runs/a --data data/coco --split testall --judgements eccv_caption/data
  vsetrain eval --compare runs/vsepp-f8k-lmh runs/vsepp-f8k-lseh
  vsetrain eval --compare runs/saf,runs/sgr runs/vseinf --json difference.json
  vsetrain eval --published
  vsetrain eval --published gsmn-dense-f30k model_best.pth.tar --data data/f30k --vocab f30k_precomp_vocab.json`,
	})
	c.ValidArgsFunction = completePublished(o)
	return c
}

func (o *evalOptions) arguments(c *cobra.Command, args []string) error {
	if o.Compare {
		return o.pair(args)
	}
	if o.Published {
		return o.published(args, c.Flags().Changed("split"))
	}
	for _, arg := range args { // after --scores, or a checkpoint without its flag
		if strings.EqualFold(filepath.Ext(arg), ".npy") {
			o.Scores = append(o.Scores, arg)
		} else {
			o.Checkpoints = append(o.Checkpoints, arg)
		}
	}
	if len(o.Checkpoints)+len(o.Scores) == 0 {
		return usagef("expected a run directory or a checkpoint: vsetrain eval RUN, or --scores FILE")
	}
	return nil
}

func (o *evalOptions) run(ctx context.Context, a *app) error {
	if err := canWrite(o.JSON, o.SaveScores, o.SaveRanks); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bars := phases{app: a}
	auto := o.Device.Precision == device.PrecisionAuto
	if auto {
		o.Device.Precision = cpu.FP32
	}
	o.request = evaluate.Request{Checkpoints: o.Checkpoints, Scores: o.Scores, Set: o.Set, Data: o.Data,
		PerImage: o.PerImage, Vocab: o.Vocab, Split: o.Split, Protocol: o.Protocol, Batch: o.Batch, Device: o.Device,
		BLAS: a.getenv("VSETRAIN_BLAS"), Work: o.Work, CompatBoxes: o.CompatBoxes, Judgements: o.Judgements,
		SaveScores: o.SaveScores, SaveRanks: o.SaveRanks, BF16First: auto,
		ProcessorTime: processorTime, Progress: bars.show, Warn: a.warn}
	if o.Published && o.name == "" {
		defer bars.close()
		return o.listPublished(a)
	}
	return o.divide(ctx, a, &o.request.Device, func(ctx context.Context, world device.Job) error {
		o.request.World = world
		if o.Compare {
			return o.runCompare(ctx, a, bars.close)
		}
		if o.Published {
			return o.runPublished(ctx, a, bars.close)
		}
		rep, err := evaluate.Run(ctx, o.request)
		bars.close()
		if err != nil || !ranks.IsRank0(world) {
			return err
		}
		return o.tell(a, rep)
	})
}

func (o *evalOptions) tell(a *app, rep evaluate.Report) error {
	if o.JSON != "-" {
		o.print(a, rep)
	}
	return o.writeJSON(a, o.measures(a, rep))
}

// writeJSON writes the result to the file of --json.
func (o *evalOptions) writeJSON(a *app, v any) error {
	switch o.JSON {
	case "":
		return nil
	case "-":
		return json.NewEncoder(a.Raw()).Encode(v)
	}
	return integrity.WriteJSON(o.JSON, v)
}

// printMeasured prints what was measured, and on which device.
func printMeasured(a *app, rep evaluate.Report) {
	for i := range rep.Measured {
		a.Printf("  %s\n", &rep.Measured[i])
		for _, note := range rep.Measured[i].Notes() {
			a.Printf("    %s\n", note)
		}
	}
	if rep.Device != "" {
		a.remark("on %s", rep.Device)
	}
	if rep.Choice != "" {
		a.remark("%s", rep.Choice)
	}
	for _, m := range rep.Memory {
		a.remark("%s", m)
	}
}

// remark prints a faint line about how numbers were measured.
func (a *app) remark(format string, args ...any) {
	a.Printf("%s\n", a.Paint(ui.Faint, fmt.Sprintf(format, args...)))
}

func printSplit(a *app, rep evaluate.Report) {
	if rep.Data != "" {
		a.Printf("%s, split %s: ", rep.Data, rep.Split)
	}
	a.Printf("%d images, %d captions\n", rep.Images, rep.Captions)
}

func (o *evalOptions) print(a *app, rep evaluate.Report) {
	printSplit(a, rep)
	printMeasured(a, rep)
	for _, r := range rep.Results {
		m := r.Metrics
		a.Printf("\n%s\n", a.Paint(ui.Bold, "protocol "+m.Protocol))
		t := ui.NewTable("", ">R@1", ">R@5", ">R@10", ">mean", ">median rank", ">mean rank")
		o.recallRow(t, "image to text", m.I2T)
		o.recallRow(t, "text to image", m.T2I)
		t.Write(a.Streams)
		a.Printf("sum of recalls %.1f, M-Recall %s\n", m.RSum, a.Paint(ui.Bold, fmt.Sprintf("%.2f", m.MRecall)))
		a.remark("guessing gives an M-Recall of %.2f", r.Chance())
		a.remark("%s", tiesText(m.Ties))
	}
	printJudged(a, rep)
	if o.Paper {
		a.remark("mean ±: how far R@1, R@5 and R@10 lie from each other, as in the LSEH paper; not an uncertainty")
	}
	if o.SaveScores != "" {
		a.Printf("scores in %s\n", o.SaveScores)
	}
	if o.SaveRanks != "" {
		a.Printf("ranks in %s\n", o.SaveRanks)
	}
}

// recallRow adds measures to a table, with --paper also the spread of the three recalls that the LSEH paper shows.
func (o *evalOptions) recallRow(t *ui.Table, name string, r eval.Recalls) {
	mean, spread := r.MeanSpread()
	text := fmt.Sprintf("%.1f", mean)
	if o.Paper {
		text += fmt.Sprintf(" ± %.1f", spread)
	}
	t.Row(name, fmt.Sprintf("%.1f", r.R1), fmt.Sprintf("%.1f", r.R5), fmt.Sprintf("%.1f", r.R10),
		text, fmt.Sprintf("%.1f", r.MedR), fmt.Sprintf("%.1f", r.MeanR))
	t.Style(ui.Faint, 5, 6)
}

// tiesText tells how many ranks depend on the order of equal scores, and the rule.
func tiesText(t eval.Ties) string {
	if t.I2T+t.T2I == 0 {
		return "ties: none"
	}
	return fmt.Sprintf("ties: the rank of %d images and %d captions depends on the order of equal scores; the later "+
		"in the file ranks first", t.I2T, t.T2I)
}

// printJudged prints the measures of judgements and the agreement with ratings.
func printJudged(a *app, rep evaluate.Report) {
	for _, j := range rep.Judged {
		a.Printf("\n%s\n", a.Paint(ui.Bold, "judgements "+j.Name+", whole split"))
		t := ui.NewTable("", ">mAP@R", ">R-Precision", ">R@1", ">R@5", ">R@10", ">queries", ">positives")
		for _, d := range []struct {
			name string
			r    eval.JudgedRecalls
		}{{"image to text", j.I2T}, {"text to image", j.T2I}} {
			one := func(v float64) string { return fmt.Sprintf("%.1f", v) }
			t.Row(d.name, one(d.r.MAPAtR), one(d.r.RPrecision), one(d.r.R1), one(d.r.R5), one(d.r.R10),
				fmt.Sprint(d.r.Queries), fmt.Sprint(d.r.Positives))
			t.Style(ui.Faint, 6, 7)
		}
		t.Write(a.Streams)
		if n := j.I2T.Absent + j.T2I.Absent; n > 0 {
			a.remark("%d of the positives are not in the split: they count, and are never found", n)
		}
	}
	printPeople(a, "", rep)
}

// printPeople prints the agreement with ratings. which is a prefix that names one of two models.
func printPeople(a *app, which string, rep evaluate.Report) {
	for _, h := range rep.People {
		a.Printf("\n%s\n", a.Paint(ui.Bold, which+"agreement with people, "+h.Name))
		t := ui.NewTable("", ">Kendall tau-b", ">tau-c", ">Spearman", ">ratings", ">pairs")
		for _, d := range []struct {
			name string
			a    eval.Agreement
		}{{"all pairs", h.All}, {"without own captions", h.Others}} {
			three := func(v float64) string { return fmt.Sprintf("%.3f", v) }
			t.Row(d.name, three(d.a.TauB), three(d.a.TauC), three(d.a.Spearman), fmt.Sprint(d.a.Ratings),
				fmt.Sprint(d.a.Pairs))
			t.Style(ui.Faint, 4, 5)
		}
		t.Write(a.Streams)
	}
}

// The JSON of eval: the measures of the first protocol, and what was measured.
type (
	evalJSON struct {
		eval.Metrics
		Protocols  []eval.Metrics        `json:"protocols,omitempty"`  // all, where there are several
		Judgements []eval.JudgedMetrics  `json:"judgements,omitempty"` // with several positives, on the whole split
		People     []eval.HumanAgreement `json:"people,omitempty"`     // agreement with ratings
		Models     []evaluate.Measured   `json:"models"`               // several are an ensemble
		Data       evalDataJSON          `json:"data"`
		Precision  string                `json:"precision,omitempty"`
		Program    programJSON           `json:"program"`
		Measured   time.Time             `json:"measured"`
	}
	evalDataJSON struct {
		Dir              string `json:"dir,omitempty"` // absolute
		Split            string `json:"split,omitempty"`
		Images           int    `json:"images"`
		Captions         int    `json:"captions"`
		CaptionsPerImage int    `json:"captions_per_image"`        // 0 where images have different numbers
		SHA256           string `json:"captions_sha256,omitempty"` // of all captions, a line feed after each
	}
	// programJSON is the vsetrain that measured.
	programJSON struct {
		Version string `json:"version"`
		Commit  string `json:"commit,omitempty"`
		Dirty   bool   `json:"dirty,omitempty"` // built with changes beyond the commit
	}
)

func (a *app) program() programJSON {
	e := session(a.Now())
	return programJSON{e.Version, e.Commit, e.Dirty}
}

// measures returns the JSON of an evaluation.
func (o *evalOptions) measures(a *app, rep evaluate.Report) evalJSON {
	out := evalJSON{Metrics: rep.Results[0].Metrics, Judgements: rep.Judged, People: rep.People, Models: rep.Measured,
		Program: a.program(), Measured: a.Now().UTC().Truncate(time.Second),
		Data: evalDataJSON{Images: rep.Images, Captions: rep.Captions, CaptionsPerImage: rep.Own.Each(),
			SHA256: rep.Digest}}
	if rep.Data != "" {
		out.Data.Dir, out.Data.Split = rep.Data, rep.Split
		if abs, err := filepath.Abs(rep.Data); err == nil {
			out.Data.Dir = abs
		}
	}
	if rep.Device != "" {
		out.Precision = o.Device.Precision
	}
	if len(rep.Results) > 1 {
		for _, r := range rep.Results {
			out.Protocols = append(out.Protocols, r.Metrics)
		}
	}
	return out
}
