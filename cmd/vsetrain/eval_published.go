package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/system/options"
)

// publishedOptions are the flags of eval --published.
type publishedOptions struct {
	Published bool           `flag:"published" not:"compare,protocol" usage:"compare a public checkpoint with its published recalls: NAME FILE..."`
	Manifest  string         `flag:"manifest" arg:"FILE" with:"published" usage:"FILE to use instead of the built-in table (docs/reproduce.md)"`
	name      string         // the first argument, empty to list all
	entry     eval.Published // of that name
	list      []eval.Published
}

// boxQuirks are the quirks of the references' evaluations that --compat-boxes reproduces: rows of docs/fidelity.md.
var boxQuirks = []string{"Q9", "Q10"}

// published reads the table and the arguments of --published, NAME FILE...; without arguments, eval lists the table.
// MS-COCO is measured on testall unless a split is named.
func (o *evalOptions) published(args []string, split bool) error {
	p := &o.publishedOptions
	var err error
	if p.list, err = p.readPublished(); err != nil || len(args) == 0 {
		return err
	}
	p.name = args[0]
	i := slices.IndexFunc(p.list, func(e eval.Published) bool { return e.Name == p.name })
	if i < 0 {
		names := publishedNames(p.list)
		near := options.Nearest(p.name, names)
		if near != "" {
			near = "did you mean " + near + "? "
		}
		return usagef("--published: no published checkpoint is called %q; %sthey are %s", p.name, near,
			strings.Join(names, ", "))
	}
	if p.entry = p.list[i]; p.entry.Data == "coco" && !split {
		o.Split = "testall"
	}
	o.Checkpoints = append(o.Checkpoints, args[1:]...)
	switch n, want := len(o.Checkpoints), len(p.entry.Files); {
	case p.entry.Network == "":
		return fmt.Errorf("%s cannot be measured: %s", p.name, p.entry.Note)
	case n == 0:
		return usagef("--published: expected the files of %s (%s): vsetrain eval --published %s FILE...", p.name,
			strings.Join(p.entry.Files, ", "), p.name)
	case n != want || len(o.Scores) > 0:
		return usagef("--published: %s is of %s (%s), found %d", p.name, ui.Count(want, "file"),
			strings.Join(p.entry.Files, ", "), n)
	}
	return nil
}

func publishedNames(list []eval.Published) (names []string) {
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

// readPublished reads the table of --manifest, or the built-in table.
func (p *publishedOptions) readPublished() ([]eval.Published, error) {
	if p.Manifest == "" {
		return eval.PublishedCheckpoints(), nil
	}
	f, _, err := regular.Open(p.Manifest)
	if err != nil {
		return nil, fmt.Errorf("--manifest: %w", err)
	}
	defer f.Close()
	return eval.ReadPublished(f, p.Manifest)
}

// completePublished completes the name after --published, and files after that.
func completePublished(o *evalOptions) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if !o.Published || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list, err := o.readPublished()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return publishedNames(list), cobra.ShellCompDirectiveNoFileComp
	}
}

// verdict compares the measured with the published recalls of one protocol.
type verdict struct {
	Protocol  string      `json:"protocol"`
	Verdict   string      `json:"verdict"` // equal, quirk, off or unknown
	Off       [6]*float64 `json:"off"`     // measured - published as eval.RecallNames, null where nothing is published
	Quirks    []string    `json:"quirks,omitempty"`
	Source    string      `json:"source,omitempty"`
	published eval.PublishedRecalls
	measured  eval.Metrics
	text      string
}

// publishedJSON is the JSON of --published.
type publishedJSON struct {
	evalJSON
	Published string    `json:"published"`
	SHA256    []string  `json:"sha256"` // of the files
	Verdicts  []verdict `json:"verdicts"`
}

// runPublished measures the files of a published checkpoint and compares the recalls with the published ones.
func (o *evalOptions) runPublished(ctx context.Context, a *app, done func()) error {
	p := &o.publishedOptions
	if !ranks.IsRank0(o.request.World) {
		defer done()
		return o.follow(ctx)
	}
	sums, err := p.hashes(o.Checkpoints)
	if err != nil {
		return err
	}
	var verdicts []verdict
	var rep evaluate.Report // of the last measurement, which may have several protocols
	for i, n := range p.entry.Recalls {
		m, ok := metricsOf(rep, n.Protocol)
		if !ok {
			if rep, err = o.measurePublished(ctx, measurement{recalls: i}); err != nil {
				return err
			}
			if m, ok = metricsOf(rep, n.Protocol); !ok {
				return fmt.Errorf("%s is published for protocol %s; split %s of %s has %d images with %v captions each",
					p.name, n.Protocol, rep.Split, rep.Data, rep.Images, rep.Own)
			}
		}
		for _, m := range rep.Measured {
			if m.Network != p.entry.Network {
				return fmt.Errorf("%s is a network %s, %s is published as %s: is it another file?", m.Checkpoint,
					m.Network, p.name, p.entry.Network)
			}
		}
		v := judge(n, m)
		if v.Verdict == "off" {
			if err := o.explain(ctx, i, &v); err != nil {
				return err
			}
		}
		verdicts = append(verdicts, v)
	}
	if err := o.announce(nil); err != nil {
		return err
	}
	done()
	if o.JSON != "-" {
		printSplit(a, rep)
		printMeasured(a, rep)
		printPublished(a, p.entry, verdicts)
		p.printHashes(a, sums)
	}
	return o.writeJSON(a, publishedJSON{o.measures(a, rep), p.name, sums, verdicts})
}

// measurement is a measurement of published recalls, by their index, with boxQuirks or without.
type measurement struct {
	recalls int
	quirks  bool
}

func (o *evalOptions) publishedRequest(m measurement) evaluate.Request {
	r, n := o.request, o.entry.Recalls[m.recalls]
	if m.quirks {
		r.Protocol, r.SaveScores, r.SaveRanks = n.Protocol, "", ""
		r.CompatBoxes = true
	} else if r.CompatBoxes { // GSMN's scores depend on the protocol then
		r.Protocol = n.Protocol
	}
	return r
}

// measurePublished measures on all ranks. Only rank 0 calls it; the others follow.
func (o *evalOptions) measurePublished(ctx context.Context, m measurement) (rep evaluate.Report, err error) {
	if err := o.announce(&m); err != nil {
		return rep, err
	}
	return evaluate.Run(ctx, o.publishedRequest(m))
}

// announce tells the other ranks what is measured next; nil ends follow.
func (o *evalOptions) announce(m *measurement) error {
	if o.request.World == nil {
		return nil
	}
	x := []float32{-1, 0}
	if m != nil {
		if x[0] = float32(m.recalls); m.quirks {
			x[1] = 1
		}
	}
	return errors.Join(o.request.World.Wait(), ranks.Broadcast(o.request.World, x))
}

// follow measures what rank 0 announces.
func (o *evalOptions) follow(ctx context.Context) error {
	for {
		x := []float32{0, 0}
		if err := errors.Join(o.request.World.Wait(), ranks.Broadcast(o.request.World, x)); err != nil || x[0] < 0 {
			return err
		}
		if _, err := evaluate.Run(ctx, o.publishedRequest(measurement{int(x[0]), x[1] > 0})); err != nil {
			return err
		}
	}
}

// metricsOf returns the measures of a protocol, if the report has them.
func metricsOf(rep evaluate.Report, protocol eval.Protocol) (eval.Metrics, bool) {
	for _, r := range rep.Results {
		if r.Metrics.Protocol == string(protocol) {
			return r.Metrics, true
		}
	}
	return eval.Metrics{}, false
}

// judge compares measures with published recalls.
func judge(n eval.PublishedRecalls, m eval.Metrics) verdict {
	off := n.Off(m)
	v := verdict{Protocol: string(n.Protocol), Off: numbersOf(off), Source: n.Source, published: n, measured: m}
	at, differs := eval.Largest(off)
	switch {
	case n.Known() == 0:
		v.Verdict, v.text = "unknown", "no source gives its recalls"
	case differs:
		v.Verdict = "off"
		v.text = fmt.Sprintf("off by %+.2f at %s, the largest difference", off[at], eval.RecallNames[at])
	default:
		v.Verdict, v.text = "equal", fmt.Sprintf("equal: all %d published recalls to the tenth", n.Known())
	}
	return v
}

// explain measures again with boxQuirks, if the source's own evaluation has some of them.
func (o *evalOptions) explain(ctx context.Context, at int, v *verdict) error {
	var known []string
	for _, q := range v.published.Quirks {
		if slices.Contains(boxQuirks, q) {
			known = append(known, q)
		}
	}
	if len(known) == 0 || o.CompatBoxes {
		return nil
	}
	rep, err := o.measurePublished(ctx, measurement{at, true})
	if err != nil {
		return err
	}
	names, again := strings.Join(known, " and "), judge(v.published, rep.Results[0].Metrics)
	if again.Verdict == "equal" {
		v.Verdict, v.Quirks = "quirk", known
		v.text += fmt.Sprintf("; explained by %s (docs/fidelity.md): equal with --compat-boxes", names)
		return nil
	}
	v.text += fmt.Sprintf("; not explained by %s: with --compat-boxes %s", names, again.text)
	return nil
}

// printPublished prints the published beside the measured recalls, and the verdicts.
func printPublished(a *app, e eval.Published, verdicts []verdict) {
	for _, v := range verdicts {
		a.Printf("\n%s\n", a.Paint(ui.Bold, fmt.Sprintf("%s, protocol %s", e.Name, v.Protocol)))
		t := ui.NewTable("", ">published", ">measured", ">off")
		measured := v.measured.Values()
		for i, name := range eval.RecallNames {
			published, off := "", ""
			if d := v.Off[i]; d != nil {
				published, off = fmt.Sprintf("%.1f", v.published.Values[i]), fmt.Sprintf("%+.2f", *d)
				if *d == 0 {
					off = "equal"
				}
			}
			t.Row(name, published, fmt.Sprintf("%.2f", measured[i]), off)
		}
		t.Write(a.Streams)
		a.Printf("%s\n", v.text)
		if v.Source != "" {
			a.remark("published in: %s", v.Source)
		}
	}
	if e.Note != "" {
		a.remark("note: %s", e.Note)
	}
}

// hashes returns the SHA-256 of the files, and an error for a file that differs from the published one.
func (p *publishedOptions) hashes(files []string) (sums []string, err error) {
	for i, path := range files {
		sum, err := integrity.FileSHA256(path)
		if errors.Is(err, regular.ErrNot) { // a run directory
			return nil, usagef("--published: %v; name the file of the checkpoint", err)
		}
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
		if want := p.entry.SHA256; want != nil && want[i] != sums[i] {
			return nil, fmt.Errorf("%s has SHA-256 %s, %s of %s has %s: it is another file, or a damaged copy; fetch "+
				"it from %s", path, sums[i], p.entry.Files[i], p.name, want[i], p.entry.Where)
		}
	}
	return sums, nil
}

func (p *publishedOptions) printHashes(a *app, sums []string) {
	for i, s := range sums {
		known := "no source gives one to compare with"
		if p.entry.SHA256 != nil {
			known = "the published one"
		}
		a.remark("SHA-256 of %s: %s, %s", p.entry.Files[i], s, known)
	}
}

// publishedRow is the JSON of a row of the table.
type publishedRow struct {
	Name     string      `json:"name"`
	Files    []string    `json:"files"`
	Network  string      `json:"network,omitempty"`
	Data     string      `json:"data"`
	Protocol string      `json:"protocol"`
	Recalls  [6]*float64 `json:"recalls"` // as eval.RecallNames, null where the source has none
	Quirks   []string    `json:"quirks,omitempty"`
	SHA256   []string    `json:"sha256,omitempty"`
	Where    string      `json:"where"`
	Source   string      `json:"source,omitempty"`
	Note     string      `json:"note,omitempty"`
}

// numbersOf replaces NaN, which JSON does not have, by nil.
func numbersOf(values [6]float64) (out [6]*float64) {
	for i := range values {
		if !math.IsNaN(values[i]) {
			out[i] = &values[i]
		}
	}
	return out
}

// listPublished prints the table.
func (o *evalOptions) listPublished(a *app) error {
	list := o.list
	if o.JSON != "" {
		var rows []publishedRow
		for _, e := range list {
			for _, n := range e.Recalls {
				rows = append(rows, publishedRow{e.Name, e.Files, e.Network, e.Data, string(n.Protocol),
					numbersOf(n.Values), n.Quirks, e.SHA256, e.Where, n.Source, e.Note})
			}
		}
		return o.writeJSON(a, rows)
	}
	t := ui.NewTable("name", "network", "data", "protocol", ">i2t R@1", ">R@5", ">R@10", ">t2i R@1", ">R@5", ">R@10")
	for _, e := range list {
		for _, n := range e.Recalls {
			cells := []string{e.Name, cmp.Or(e.Network, "not read"), e.Data, string(n.Protocol)}
			for _, v := range n.Values {
				if math.IsNaN(v) {
					cells = append(cells, "")
				} else {
					cells = append(cells, fmt.Sprintf("%.1f", v))
				}
			}
			t.Row(cells...)
		}
	}
	t.Write(a.Streams)
	a.remark("where they are, and the sources: docs/reproduce.md; measure one: vsetrain eval --published NAME FILE")
	return nil
}
