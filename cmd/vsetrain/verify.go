package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/verify"
)

type verifyOptions struct {
	Paths  []string `args:"RUN|DATA|FILE" missing:"expected a run, a data set or a file, found no argument"`
	Record bool     `flag:"record" usage:"accept the files of a folder as they are, and write its manifest"`
}

func newCmdVerify(a *app) *cobra.Command {
	return a.command(&verifyOptions{}, &cobra.Command{
		Use:   "verify RUN|DATA|FILE...",
		Short: "Check that files are as they were written",
		Long: `Read all files of runs, data sets and sweeps, or single files, and compare them
with what was recorded when they were written. Damaged, missing and foreign
parts are named, and the exit code is 1.`,
		Example: `  vsetrain verify runs/demo
  vsetrain verify data/f30k runs/*
  vsetrain verify --record data/f30k   # write the manifest of files from elsewhere`,
	})
}

func (o *verifyOptions) run(ctx context.Context, a *app) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	var damaged []string
	for _, path := range o.Paths {
		if o.Record {
			m, err := integrity.Record(path)
			if err != nil {
				return err
			}
			a.Printf("%s: %s recorded in %s\n", path, ui.Count(len(m.Files), "file"), integrity.ManifestName)
			continue
		}
		bars := phases{app: a}
		r, err := verify.Path(ctx, path, bars.show)
		bars.close()
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; expected a run, a data set or a file", err)
		}
		if err != nil {
			return err
		}
		for _, d := range r.Damaged {
			a.Printf("%s: %s: %s\n", a.Paint(ui.Red, "damaged"), d.Path, d.What)
			damaged = append(damaged, d.Path)
		}
		if len(r.Without) > 0 {
			const shown = 5
			list := strings.Join(r.Without[:min(shown, len(r.Without))], ", ")
			if n := len(r.Without) - shown; n > 0 {
				list += fmt.Sprintf(" and %d more", n)
			}
			a.Printf("%s: no checksum for %s: %s\n", path, ui.Count(len(r.Without), "file"), list)
		}
		if len(r.Damaged)+len(r.Without)+r.Whole == 0 {
			a.Printf("%s: no files\n", path)
		}
		if len(r.Damaged) == 0 && r.Whole > 0 {
			a.Printf("%s: %s whole\n", path, ui.Count(r.Whole, "file"))
		}
	}
	if len(damaged) > 0 {
		return fmt.Errorf("%s damaged, listed above; restore them from copies", ui.Count(len(damaged), "file"))
	}
	return nil
}
