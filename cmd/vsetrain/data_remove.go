package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
)

type dataRemoveOptions struct {
	IDs   []string `args:"ID" optional:"yes"`
	Dir   string   `flag:"data" arg:"DIR" need:"yes" usage:"DIR of the data set"`
	Split string   `flag:"split" arg:"SPLIT" need:"yes" usage:"name of the split, such as test"`
	File  string   `flag:"ids" arg:"FILE" usage:"FILE with one image id per line (- is standard input)"`
}

func newCmdDataRemove(a *app) *cobra.Command {
	return a.command(&dataRemoveOptions{}, &cobra.Command{
		Use:   "remove --data DIR --split NAME ID...",
		Short: "Remove images from a gallery",
		Long: `Remove images from a gallery (a split without captions) by their ids: all of
them, or none if an id is unknown.

The feature file does not change: {split}_changes.bin records what was removed, and every command reads both. A
server that watches the split, or receives SIGHUP, stops finding the images. Ids that were removed before are
skipped, so the command can be repeated after a failure.

'vsetrain data extract --add' adds pictures; 'vsetrain data fold' writes files without the removed images.`,
		Example: `  vsetrain data remove --data data/mine --split test 1056338697.jpg 106490881.jpg
  vsetrain data remove --data data/mine --split test --ids gone.txt`,
	})
}

func (o *dataRemoveOptions) run(ctx context.Context, a *app) error {
	ids := o.IDs
	if len(ids) == 0 && o.File == "" {
		return usagef("expected ids of images, or --ids FILE")
	}
	if o.File != "" {
		lines, err := readLines(a.In, "ids", o.File)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if id := strings.TrimSpace(line); id != "" {
				ids = append(ids, id)
			}
		}
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

type dataFoldOptions struct {
	Dir   string `args:"DIR"`
	Split string `flag:"split" arg:"SPLIT" need:"yes" usage:"name of the split, such as test"`
	Out   string `flag:"out" arg:"DIR" need:"yes" usage:"DIR for the files"`
}

func newCmdDataFold(a *app) *cobra.Command {
	return a.command(&dataFoldOptions{}, &cobra.Command{
		Use:   "fold DIR --split NAME --out DIR",
		Short: "Write the files of a gallery without removed images",
		Long: `Write features, ids, boxes and sizes of a gallery to another folder, with all
additions and removals applied: plain files for other programs, without
{split}_changes.bin.`,
		Example: `  vsetrain data fold data/mine --split test --out data/mine-folded
  vsetrain data fold data/mine --split dev --out /media/copy/mine`,
	})
}

func (o *dataFoldOptions) run(ctx context.Context, a *app) error {
	files, err := data.Fold(o.Dir, o.Split, o.Out)
	if err != nil {
		return err
	}
	a.Printf("written: %s\n", strings.Join(files, ", "))
	return nil
}
