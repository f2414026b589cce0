package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/internal/files/regular"
)

type dataRemoveOptions struct {
	Dir, Split string
	IDs        []string
	File       string // with further ids
}

func newCmdDataRemove(a *app) *cobra.Command {
	o := &dataRemoveOptions{}
	c := &cobra.Command{
		Use:   "remove --data DIR --split NAME ID...",
		Short: "Remove images from a gallery",
		Long: `Remove images from a split without captions, by their ids: all of them, or none where an id is
unknown. The feature file stays as it is; {split}_changes.bin notes what has gone, and every command of vsetrain reads
both. A server that watches the split, or is told with SIGHUP, no longer finds them. Ids that were removed earlier are
passed over, so that the same command may be given again after a failure.

'vsetrain data extract --add' adds pictures, 'vsetrain data fold' writes files without what was removed.`,
		Example: `  vsetrain data remove --data data/mine --split test 1056338697.jpg 106490881.jpg
  vsetrain data remove --data data/mine --split test --ids gone.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.IDs = args; len(args) == 0 && o.File == "" {
				return usagef("expected ids of images, or --ids FILE")
			}
			return nil
		},
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "data", "", "`DIR` of the data set")
	f.StringVar(&o.Split, "split", "", "`NAME` of the split, such as test")
	f.StringVar(&o.File, "ids", "", "`FILE` with an image id a line (- is standard input)")
	for _, name := range []string{"data", "split"} {
		must(c.MarkFlagRequired(name))
	}
	return c
}

func (o *dataRemoveOptions) run(ctx context.Context, a *app) error {
	ids := o.IDs
	if o.File != "" {
		in := a.In
		if o.File != "-" {
			f, err := os.Open(o.File)
			if err != nil {
				return fmt.Errorf("ids: %w", err)
			}
			defer f.Close()
			in = f
		}
		more, err := idLines(in)
		if err != nil {
			return fmt.Errorf("%s: %w", nameOfInput(o.File), err)
		}
		ids = append(ids, more...)
	}
	if err := data.Amend(ctx, o.Dir, o.Split, data.Change{Removed: ids}, nil); err != nil {
		if errors.Is(err, data.ErrNoImage) {
			return fmt.Errorf("%w; nothing was removed", err)
		}
		return err
	}
	s, err := data.Open(o.Dir, o.Split, data.OpenOptions{Partial: true})
	if err != nil {
		return err
	}
	defer s.Close()
	a.Printf("split %s of %s has %s now\n", o.Split, o.Dir, ui.Count(s.NumImages(), "image"))
	return nil
}

// idLines reads ids, one a line; empty lines are passed over.
func idLines(in io.Reader) (ids []string, err error) {
	s := bufio.NewScanner(regular.TextReader(in))
	for s.Scan() {
		if id := strings.TrimSpace(s.Text()); id != "" {
			ids = append(ids, id)
		}
	}
	return ids, s.Err()
}

type dataFoldOptions struct{ Dir, Split, Out string }

func newCmdDataFold(a *app) *cobra.Command {
	o := &dataFoldOptions{}
	c := &cobra.Command{
		Use:   "fold DIR --split NAME --out DIR",
		Short: "Write the files of a gallery anew, without what was removed",
		Long: `Write features, ids, boxes and sizes of a gallery as they are after images were added and removed,
into another folder: files that programs beside vsetrain read, without {split}_changes.bin.`,
		Example: `  vsetrain data fold data/mine --split test --out data/mine-folded
  vsetrain data fold data/mine --split dev --out /media/copy/mine`,
		Args: oneArg("DIR", &o.Dir),
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Split, "split", "", "`NAME` of the split, such as test")
	f.StringVar(&o.Out, "out", "", "`DIR` for the files")
	for _, name := range []string{"split", "out"} {
		must(c.MarkFlagRequired(name))
	}
	return c
}

func (o *dataFoldOptions) run(ctx context.Context, a *app) error {
	files, err := data.Fold(o.Dir, o.Split, o.Out)
	if err != nil {
		return err
	}
	a.Printf("written: %s\n", strings.Join(files, ", "))
	return nil
}
