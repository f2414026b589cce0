package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/files/regular"
)

type searchOptions struct {
	Image    string `flag:"image" arg:"ID|FILE" usage:"find captions for an image of the split, by id or number, or for a picture file"`
	K        int    `flag:"k" default:"10" min:"1" usage:"number of results"`
	Captions int    `flag:"captions" default:"1" min:"0" usage:"captions to show for each found image"`
	Images   string `flag:"images" arg:"DIR" usage:"DIR of the pictures whose paths are shown" empty:"images in the data set's folder"`
	JSON     bool   `flag:"json" usage:"print one line of JSON for each query"`
	splitFlag
	retrievalFlags `group:"Data and network"`
	query          string // "-" reads one query per line from standard input
}

func newCmdSearch(a *app) *cobra.Command {
	return a.command(&searchOptions{}, &cobra.Command{
		Use:   "search [CHECKPOINT...] QUERY | - | --image ID | --image FILE",
		Short: "Find images for a caption, or captions for an image",
		Long: `Find the images of a split that fit a caption best, or the captions that fit
--image. Results show the score, the id, and captions of the found image.

A checkpoint is anything that eval takes; several form an ensemble. Without --checkpoint, the arguments before the
query that are paths name them. The query is tokenised as in training; words that the network does not know are
named. With -, queries are read from standard input, one per line, and answered one after the other with the network
loaded once. --image takes an image of the split or any picture file, whose features are computed with the model
that made the data set's.

` + pairScorers() + ` score every pair. With --shortlist, an embedder (` + embedders() + `) picks candidates and the
pair scorer orders them. Encodings are kept, and the next search with the same weights and data uses them again.`,
		Example: `  vsetrain search runs/vseinf-f30k-lseh "a dog runs on the beach" --data data/f30k
  vsetrain search runs/vseinf-f30k-lseh --image 1007129816.jpg --k 5
  vsetrain search runs/vseinf-mine --image holiday.jpg --extractor resnet101.onnx
  vsetrain search - --checkpoint runs/gsmn --shortlist runs/vsepp --cache encoded --json < queries.txt
  vsetrain search two men play chess --checkpoint runs/saf --checkpoint runs/sgr --images pictures/f30k`,
	})
}

func (o *searchOptions) arguments(_ *cobra.Command, args []string) error {
	named := len(o.Checkpoints) > 0
	for !named && len(args) > 0 && isCheckpoint(args[0]) {
		o.Checkpoints, args = append(o.Checkpoints, args[0]), args[1:]
	}
	o.query = strings.Join(args, " ")
	switch {
	case o.Image == "" && len(args) == 0:
		return usagef(`expected a query such as "a dog runs on the beach", - for queries from standard ` +
			`input, or --image ID`)
	case o.Extractor != "" && o.Image == "":
		return usagef("--extractor is for a picture: add --image FILE")
	case o.Image != "" && len(args) > 0:
		return usagef("expected a query or --image, found both")
	case o.Image == "" && strings.TrimSpace(o.query) == "":
		return usagef("expected a query of words, found %q", o.query)
	}
	if len(o.Checkpoints) == 0 {
		found := "no argument"
		if len(args) > 0 {
			found = fmt.Sprintf("%q, which is neither", args[0])
		}
		return usagef("which network? expected a run or a checkpoint before the query, or with --checkpoint, "+
			"found %s", found)
	}
	return nil
}

func (o *searchOptions) run(ctx context.Context, a *app) error {
	s := &searcher{app: a, opt: o}
	var err error
	if o.Images != "" {
		if s.gallery, err = pictures.OpenGallery(o.Images); err != nil {
			return err
		}
	}
	if s.index, err = o.open(ctx, s); err != nil {
		return err
	}
	defer s.index.Close()
	if dir := pictures.FolderOf(o.Images, s.index.Info().Data); s.gallery == nil && dir != "" {
		if s.gallery, err = pictures.OpenGallery(dir); err != nil {
			return err
		}
	}
	if s.extractor != nil {
		defer s.extractor.Close()
	}
	switch {
	case o.Image != "":
		return s.image(ctx, o.Image)
	case o.query == "-":
		return s.lines(ctx, a.In)
	}
	return s.text(ctx, o.query)
}

// open encodes what the query is compared with. An interrupt ends it in order; a later interrupt ends the program at
// once, as nothing is being written then.
func (o *searchOptions) open(ctx context.Context, s *searcher) (*search.Index, error) {
	a := s.app
	ctx, stop := interruptible(ctx)
	defer stop()
	bars, start := phases{app: a}, time.Now()
	defer bars.close()
	x, err := search.Open(o.options(a, o.Split, bars.show))
	if err != nil {
		return nil, err
	}
	asked := search.TextQueries
	if o.Image != "" {
		asked = search.ImageQueries
		err = s.openPicture(ctx, x)
	}
	if err == nil {
		err = x.Prepare(ctx, asked)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	bars.close()
	i := x.Info()
	a.Notef("%s, split %s: %d images, %d captions; ready after %s\n", i.Data, i.Split, i.Images, i.Captions,
		ui.Duration(time.Since(start)))
	return x, nil
}

// lines answers one query per line, and continues after a query that cannot be answered.
func (s *searcher) lines(ctx context.Context, r io.Reader) error {
	queries, failed := 0, 0
	in := bufio.NewScanner(regular.TextReader(r))
	in.Buffer(nil, longestLine)
	for in.Scan() {
		query := strings.TrimSpace(in.Text())
		if query == "" {
			continue
		}
		queries++
		if err := s.text(ctx, query); err != nil {
			var unknown *search.UnknownError
			if !errors.As(err, &unknown) {
				return err
			}
			failed++
			s.failed(query, err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("queries from standard input: after %d: %w", queries, err)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d queries have no word that the network knows", failed, queries)
	}
	return nil
}
