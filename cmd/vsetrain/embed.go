package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/run/checkpoints"
)

type embedOptions struct {
	Checkpoint string `flag:"checkpoint" arg:"PATH" usage:"run directory or checkpoint, instead of the argument"`
	Of         string `flag:"of" enum:"images|captions" not:"texts" usage:"what to embed from the split"`
	Texts      string `flag:"texts" arg:"FILE" usage:"text FILE with one caption per line, instead of a split (- is standard input)"`
	Out        string `flag:"out" arg:"FILE" need:"yes" usage:"FILE to write, .npy or .safetensors"`
	Force      bool   `flag:"force" usage:"replace an existing file"`
	splitFlag
	trainedFlags `group:"Data and network"`
	rankFlags    `group:"Processes and GPUs"`
}

func newCmdEmbed(a *app) *cobra.Command {
	return a.command(&embedOptions{}, &cobra.Command{
		Use:   "embed CHECKPOINT",
		Short: "Write the embeddings of images or captions",
		Long: `Write the embeddings of a split's images or captions, or of captions from a text
file, as float32 [N, E]. The network is an embedder: ` + embedders() + `.

There is one row for each distinct image or caption, in the order of the files. The dot product of an image and a
caption is their score.

FILE.npy is the array; FILE_ids.txt has the ids, one per line. FILE.safetensors holds the tensor "embeddings" and,
in its metadata, the ids as a JSON list. Ids come from the ids file (ID#0, ID#1 ... for the captions of an image) or
are the line numbers of the text, from 1. A file appears complete or not at all; --force replaces an existing one.`,
		Example: `  vsetrain embed runs/vseinf-f30k-lseh --of images --out test_images.npy
  vsetrain embed runs/vseinf-f30k-lseh --of captions --split dev --out dev_captions.safetensors
  echo "a dog runs on the beach" | vsetrain embed runs/vseinf-f30k-lseh --texts - --out query.npy`,
	})
}

func (o *embedOptions) arguments(_ *cobra.Command, args []string) error {
	var all []string
	if o.Checkpoint != "" {
		all = []string{o.Checkpoint}
	}
	if err := checkpointArgs(&all, args); err != nil {
		return err
	}
	if o.Checkpoint = all[0]; len(all) > 1 {
		return usagef("embed takes one checkpoint, found %q too", all[1])
	}
	return nil
}

func (o *embedOptions) check(*app) error {
	if o.Of == "" && o.Texts == "" {
		return usagef("expected --of images, --of captions or --texts FILE")
	}
	if _, err := search.EmbedFiles(o.Out); err != nil {
		return usagef("--out: %v", err)
	}
	return nil
}

func (o *embedOptions) run(ctx context.Context, a *app) error {
	files, err := search.EmbedFiles(o.Out)
	if err != nil {
		return err
	}
	for _, f := range files { // before the work, not after it
		if err := checkpoints.RefuseOverwrite(f, o.Force); err != nil {
			return err
		}
	}
	if err := canWrite(o.Out); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	r := search.EmbedRequest{What: o.Of, Out: o.Out, Batch: o.Batch, Request: o.request(a, o.Checkpoint, o.Split)}
	if o.Texts != "" {
		r.What, r.Source = search.EmbedTexts, nameOfInput(o.Texts)
		if r.Texts, err = readLines(a.In, "captions", o.Texts); err != nil {
			return err
		}
	}
	bars := phases{app: a}
	r.Progress = func(done, total int) { bars.show("embed "+r.What, done, total) }
	return o.divide(ctx, a, &r.Device, func(ctx context.Context, world device.Job) error {
		r.World = world
		rep, err := search.Embed(ctx, r)
		bars.close()
		if err == nil && ranks.IsRank0(world) {
			o.tell(a, rep)
		}
		return err
	})
}

func (o *embedOptions) tell(a *app, rep search.EmbedReport) {
	if rep.UnknownOnly > 0 {
		a.Notef("%d of %d captions have no word that the network knows\n", rep.UnknownOnly, rep.Rows)
	}
	a.Printf("%s\n%d x %d float32 written to %s\n", rep.Checkpoint, rep.Rows, rep.Dim, strings.Join(rep.Files, " and "))
}

func nameOfInput(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// longestLine is the most bytes in a line of captions, queries or ids.
const longestLine = 1 << 20

// readLines reads the lines of a file, or of in if the path is "-". what is the content, for errors.
func readLines(in io.Reader, what, path string) (lines []string, err error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		defer f.Close()
		in = f
	}
	s := bufio.NewScanner(regular.TextReader(in))
	s.Buffer(nil, longestLine)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: after %d lines: %w", nameOfInput(path), len(lines), err)
	}
	return lines, nil
}
