package checkpoints

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/models"
	"vsetrain/semantic"
)

// SentenceRequest asks for the sentence vectors of a caption file.
type SentenceRequest struct {
	Captions string // file, one caption per line
	Bert     string // folder with vocab.txt and weights
	Pool     string // one of models.SentencePools
	Out      string // .npy or .txt
	Batch    int    // captions at a time; 0 is 64
	Device   device.Options
	BLAS     string
	World    device.Job // the job whose ranks divide the captions, rank 0 writing; nil is one rank
	Progress func(done, total int)
	Warn     func(error) // receives warnings; may be nil
}

// SentenceReport is the outcome.
type SentenceReport struct {
	Captions, Dim int
	Device        string
	Cut           int // captions that were truncated to the positions of the encoder
}

// sentenceChunk is the number of captions that are sorted by length together, so that the lengths in a batch are
// similar.
const sentenceChunk = 8192

// PrecomputeBert writes the sentence vectors of captions, row c for line c, and a description beside them. If it fails
// or ctx is cancelled, no file remains.
func PrecomputeBert(ctx context.Context, r SentenceRequest) (rep SentenceReport, err error) {
	if !slices.Contains(models.SentencePools, r.Pool) {
		return rep, fmt.Errorf("sentence vectors %q; expected one of %s", r.Pool,
			strings.Join(models.SentencePools, ", "))
	}
	lines, hash, err := semantic.ReadCaptions(r.Captions)
	if err != nil {
		return rep, err
	}
	if err := inputs.CheckBert("--bert", r.Bert); err != nil {
		return rep, err
	}
	pieces, err := text.LoadBertTokenizer(filepath.Join(r.Bert, "vocab.txt"), math.MaxInt32)
	if err != nil {
		return rep, err
	}
	dev, err := placement.Open(r.Device, r.BLAS, r.Warn)
	if err != nil {
		return rep, err
	}
	if dev, err = placement.Join(dev, r.World); err != nil {
		return rep, err
	}
	defer dev.Close()
	enc, err := models.OpenSentenceEncoder(dev, r.Bert, pieces.Len(), r.Pool)
	if err != nil {
		return rep, err
	}
	rep = SentenceReport{Captions: len(lines), Dim: enc.Dim(), Device: dev.Name()}
	write, end := func([]float32) error { return nil }, func() error { return nil }
	if ranks.IsRank0(r.World) {
		w, err := semantic.Create(r.Out, semantic.Sidecar{Method: "bert", Pool: r.Pool, CaptionSHA256: hash,
			Captions: len(lines), Dim: enc.Dim()})
		if err != nil {
			return rep, err
		}
		defer w.Abort()
		write, end = w.Write, w.Close
	}
	pieces.Max = enc.Options.Positions
	s := &sentences{SentenceRequest: r, enc: enc, dev: dev, coder: pieces.NewEncoder(), total: len(lines)}
	if s.Batch < 1 {
		s.Batch = 64
	}
	for lo := 0; lo < len(lines); lo += sentenceChunk {
		rows, err := s.chunk(ctx, lines[lo:min(len(lines), lo+sentenceChunk)])
		if err != nil {
			return rep, err
		}
		if err := write(rows); err != nil {
			return rep, err
		}
	}
	rep.Cut = s.cut
	return rep, end()
}

type sentences struct {
	SentenceRequest
	enc              *models.SentenceEncoder
	dev              device.Device
	coder            text.Encoder
	done, total, cut int
}

// chunk returns the vectors of some captions, in their order.
func (s *sentences) chunk(ctx context.Context, lines []string) ([]float32, error) {
	d := s.enc.Dim()
	ids := make([][]int32, len(lines))
	for i, line := range lines {
		if ids[i], _, _ = s.coder.Append(nil, line); len(ids[i]) == s.enc.Options.Positions {
			s.cut++
		}
	}
	rows, err := eval.EncodeTexts(ctx, s.dev, ids, d, func(int) int { return s.Batch }, s.enc.Encode,
		func(done, _ int) {
			if s.Progress != nil {
				s.Progress(s.done+done, s.total)
			}
		})
	if err != nil {
		return nil, err
	}
	for i, v := range rows {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("caption %d has the sentence vector value %v; the weights in %s are broken",
				s.done+i/d+1, v, s.Bert)
		}
	}
	s.done += len(lines)
	return rows, nil
}
