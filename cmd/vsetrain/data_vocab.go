package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/data"
	"vsetrain/data/text"
)

type dataVocabOptions struct {
	Dir       string   `args:"DIR"`
	Splits    []string `flag:"splits" arg:"SPLITS" list:"," default:"train,dev" not:"from" usage:"SPLITS to count, without test"`
	Threshold int      `flag:"threshold" default:"4" min:"1" not:"from" usage:"occurrences that a word needs"`
	Out       string   `flag:"out" arg:"FILE" usage:"output FILE" empty:"vocab.json in the folder"`
	From      string   `flag:"from" arg:"FILE" usage:"convert this vocabulary FILE instead"`
	Force     bool     `flag:"force" usage:"replace a vocabulary that has other words or ids"`
}

func newCmdDataVocab(a *app) *cobra.Command {
	return a.command(&dataVocabOptions{}, &cobra.Command{
		Use:   "vocab DIR",
		Short: "Build the vocabulary of a data set from its captions",
		Long: `Count the words of the train and dev captions, keep the frequent ones, and write
vocab.json as SCAN lays it out. --from converts a published vocabulary instead.

--from reads JSON, or a pickle, as VSE++ and VSRN publish it. Weights work only with the vocabulary they were
trained with, so a file of other words or ids is replaced only with --force.`,
		Example: `  vsetrain data vocab data/f30k
  vsetrain data vocab data/f30k --threshold 5 --out other.json
  vsetrain data vocab data/f30k --from f30k_precomp_vocab.pkl`,
	})
}

func (o *dataVocabOptions) run(_ context.Context, a *app) error {
	out := cmp.Or(o.Out, filepath.Join(o.Dir, "vocab.json"))
	v, source, err := o.vocabulary(a)
	if err != nil {
		return err
	}
	if !o.Force {
		switch same, err := v.Holds(out); {
		case err != nil:
			return fmt.Errorf("%w; replace it with --force, or name another file with --out", err)
		case same:
			a.Printf("%s: holds these %d words from %s already\n", out, v.Len(), source)
			return nil
		}
	}
	if err := v.Save(out); err != nil {
		return err
	}
	a.Printf("%s: %d words, with <pad> <start> <end> <unk>, from %s\n", out, v.Len(), source)
	return nil
}

// vocabulary converts or builds a vocabulary, and returns its source.
func (o *dataVocabOptions) vocabulary(a *app) (*text.Vocabulary, string, error) {
	if o.From != "" {
		v, err := text.LoadVocabulary(o.From)
		return v, o.From, err
	}
	var captions []string
	for _, split := range o.Splits {
		path, err := captionFile(o.Dir, split, "DIR", "--splits")
		if err != nil {
			return nil, "", err
		}
		lines, err := data.ReadCaptions(path, a.warn)
		if err != nil {
			return nil, "", err
		}
		captions = append(captions, lines...)
	}
	v, err := text.BuildVocabulary(slices.Values(captions), o.Threshold)
	if err == nil {
		warning, _ := text.CoverageOf(slices.Values(captions), v).Check()
		if warning != nil {
			a.warn(fmt.Errorf("%w lower --threshold where words are rare", warning))
		}
	}
	return v, fmt.Sprintf("%d captions of %s", len(captions), strings.Join(o.Splits, " and ")), err
}

// captionFile returns the path of the captions of a split in a data folder. setting names the folder, and flag splits.
func captionFile(dir, split, setting, flag string) (string, error) {
	path := filepath.Join(dir, split+"_caps.txt")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return "", data.MissingCaptions(dir, split, setting, flag)
}
