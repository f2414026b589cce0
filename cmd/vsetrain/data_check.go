package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

type dataCheckOptions struct {
	Dir   string `args:"DIR"`
	Vocab string `flag:"vocab" arg:"FILE" default:"auto" usage:"vocabulary FILE; auto is vocab.json in the folder"`
	perImageFlag
	DType    string `flag:"dtype" enum:"auto|f32|f16" default:"auto" usage:"require a feature type"`
	Quick    bool   `flag:"quick" usage:"examine about 1,000 rows of each array instead of all"`
	JSON     bool   `flag:"json" usage:"print the report as JSON"`
	Manifest bool   `flag:"manifest" usage:"also record sizes and checksums of all files, for vsetrain verify"`
}

func newCmdDataCheck(a *app) *cobra.Command {
	return a.command(&dataCheckOptions{}, &cobra.Command{
		Use:   "check DIR",
		Short: "List every file of a data set and what is wrong with it",
		Long: `List every file of a data set with its shape, type and counts. Find NaN, missing
rows, empty captions and files that do not match, and say how to fix each. The
exit code is 1 if anything is wrong.`,
		Example: `  vsetrain data check data/f30k
  vsetrain data check data/coco --quick
  vsetrain data check data/coco --manifest`,
	})
}

func (o *dataCheckOptions) run(_ context.Context, a *app) error {
	check := data.CheckOptions{Vocab: o.Vocab, PerImage: o.PerImage, FeatureDType: o.DType}
	if o.Quick {
		check.SampleRows = 1000
	}
	bars := phases{app: a}
	check.Progress = bars.show
	r, err := data.Check(o.Dir, check)
	bars.close()
	if err != nil {
		return err
	}
	if o.JSON {
		if err := printJSON(a, r); err != nil {
			return err
		}
	} else {
		writeReport(a, r)
	}
	if !r.OK() {
		return fmt.Errorf("%s: %s in the data set, listed above", o.Dir, ui.Count(countErrors(r), "error"))
	}
	if o.Manifest {
		_, err := integrity.Record(o.Dir)
		return err
	}
	return nil
}

func countErrors(r *data.Report) int {
	n := 0
	for _, p := range r.Problems {
		if p.Error {
			n++
		}
	}
	return n
}

func writeReport(a *app, r *data.Report) {
	files := ui.NewTable("file", "kind", "type", "shape", ">lines", ">size", ">min", ">max", ">zeros")
	for _, f := range r.Files {
		lines, lo, hi, zeros := "", "", "", ""
		if f.Lines > 0 {
			lines = strconv.Itoa(f.Lines)
		}
		if f.Scan != nil {
			lo, hi, zeros = fmt.Sprintf("%.4g", f.Scan.Min), fmt.Sprintf("%.4g", f.Scan.Max), fmt.Sprintf("%.0f %%",
				100*f.Scan.ZeroShare)
		}
		files.Row(f.Name, f.Kind, typeText(npy.DType(f.DType)), shapeText(f.Shape), lines, ui.Bytes(f.Bytes), lo, hi,
			zeros)
	}
	files.Write(a.Streams)
	a.Printf("\n")
	splits := ui.NewTable("split", ">images", ">captions", ">per image", "rows", ">regions", ">dim", ">words",
		">unknown", ">tokens")
	for _, s := range r.Splits {
		rows, unknown := "one per image", ""
		switch {
		case s.Regions == 0:
			rows = "none"
		case s.Repeated:
			rows = "one per caption"
		}
		if r.Vocab != nil && s.Words > 0 {
			unknown = fmt.Sprintf("%.2f %%", 100*float64(s.Unknown)/float64(s.Words))
		}
		splits.Row(s.Name, strconv.Itoa(s.Images), strconv.Itoa(s.Captions), perImage(s), rows,
			strconv.Itoa(s.Regions), strconv.Itoa(s.Dim), strconv.Itoa(s.Words), unknown, fmt.Sprintf("%.1f",
				s.Lengths.Mean))
	}
	splits.Write(a.Streams)
	for _, s := range r.Splits {
		if s.Added+s.Removed > 0 {
			a.Printf("split %s: %s added and %d removed since its files were written\n", s.Name,
				ui.Count(s.Added, "image"), s.Removed)
		}
	}
	if r.Features != "" {
		a.Printf("\nfeatures named and sized as SCAN's %s (docs/reproduce.md); their values were not compared\n",
			r.Features)
	}
	if r.Vocab != nil {
		a.Printf("\nvocabulary %s: %d words\n", r.Vocab.Path, r.Vocab.Words)
	}
	if len(r.Problems) == 0 {
		a.Printf("\n%s\n", a.Paint(ui.Green, "everything fits together"))
		return
	}
	a.Printf("\n")
	for _, p := range r.Problems {
		kind, style := "warning", ui.Yellow
		if p.Error {
			kind, style = "error", ui.Red
		}
		text := p.File + ": " + p.What
		if p.Remedy != "" {
			text += "; " + p.Remedy
		}
		a.Printf("%s: %s\n", a.Paint(style, kind), text)
	}
}

// perImage returns the number of captions of an image, or the range of the numbers.
func perImage(s data.SplitReport) string {
	if s.FewestCaptions == s.MostCaptions {
		return strconv.Itoa(s.MostCaptions)
	}
	return fmt.Sprintf("%d to %d", s.FewestCaptions, s.MostCaptions)
}

func shapeText(shape []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", " x ")
}

// typeText returns the name of a type of features as --dtype spells it, NumPy's name for others.
func typeText(d npy.DType) string {
	for name, t := range dtypes {
		if t == d {
			return name
		}
	}
	return d.Name()
}
