package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"
	"strconv"
	"strings"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// Values of EmbedRequest.What.
const (
	EmbedImages   = "images"
	EmbedCaptions = "captions"
	EmbedTexts    = "texts"
)

// EmbedRequest asks for the embeddings of a split, or of captions that are not in a data set.
type EmbedRequest struct {
	pretrained.Request          // Split is ignored for texts
	What               string   // EmbedImages, EmbedCaptions or EmbedTexts
	Texts              []string // for EmbedTexts; a line without words is an error with its number, from 1
	Source             string   // file name of Texts, for errors
	// Out is the file to write or replace:
	//
	//	.npy          float32 [N, E], and the ids, one a line, in the file idsPath names
	//	.safetensors  tensor "embeddings" float32 [N, E]; metadata: ids (a JSON list), ids_sha256 (of them
	//	              as in the file of a .npy), kind, network, checkpoint, data and split
	//
	// N is the number of distinct images, captions or texts, E the size of an embedding. The ids of images are from the
	// ids file. The id of caption k of an image is ID#k with k from 0, the id of a text its line from 1.
	Out      string
	Batch    int // images or captions at a time; 0 is 128; does not change the result
	Progress func(done, total int)
}

// EmbedReport is the outcome.
type EmbedReport struct {
	Rows, Dim   int
	Checkpoint  string   // as it was found
	Files       []string // that were written
	UnknownOnly int      // texts without a known word
}

// idsPath returns the ids file of a .npy file: NAME_ids.txt for NAME.npy.
func idsPath(out string) string { return strings.TrimSuffix(out, filepath.Ext(out)) + "_ids.txt" }

// EmbedFiles returns the files that Embed writes for out. It is an error if out ends in neither .npy nor .safetensors.
func EmbedFiles(out string) ([]string, error) {
	switch strings.ToLower(filepath.Ext(out)) {
	case ".npy":
		return []string{out, idsPath(out)}, nil
	case ".safetensors":
		return []string{out}, nil
	}
	return nil, fmt.Errorf("%s: expected a name ending in .npy or .safetensors", out)
}

// Embed writes embeddings. A network that scores pairs has none.
func Embed(ctx context.Context, r EmbedRequest) (rep EmbedReport, err error) {
	if rep.Files, err = EmbedFiles(r.Out); err != nil {
		return rep, err
	}
	if r.What == EmbedTexts {
		r.Split = ""
	} else if r.Split == "" {
		r.Split = defaultSplit
	}
	r.Partial = true
	t, err := pretrained.Open(r.Request)
	if err != nil {
		return rep, err
	}
	defer t.Close()
	if t.Split != nil {
		if err := data.Need(t.Split, r.What == EmbedImages, r.What == EmbedCaptions); err != nil {
			return rep, err
		}
	}
	if t.Runner.Pairs != nil {
		return rep, noEmbedding(t)
	}
	o := eval.EncodeOptions{Batch: cmp.Or(r.Batch, defaultBatch), Progress: r.Progress}
	var rows []float32
	var ids []string
	switch r.What {
	case EmbedImages:
		for i := range t.Split.NumImages() {
			ids = append(ids, idOf(t.Split, i))
		}
		rows, err = eval.EncodeImages(ctx, t.Runner.Embeds, t.Split, o)
	case EmbedCaptions:
		own := t.Split.Groups()
		for i := range own.Images() {
			for j := range own.First(i+1) - own.First(i) {
				ids = append(ids, fmt.Sprintf("%s#%d", idOf(t.Split, i), j))
			}
		}
		rows, err = eval.EncodeCaptions(ctx, t.Runner.Embeds, t.Split, t.Tokenizer, o)
	case EmbedTexts:
		for i := range r.Texts {
			ids = append(ids, strconv.Itoa(i+1))
		}
		rows, rep.UnknownOnly, err = encodeTexts(ctx, t.Runner.Embeds, t.Tokenizer, r.Texts, r.Source, o)
	default:
		err = fmt.Errorf("embed %q; expected %s, %s or %s", r.What, EmbedImages, EmbedCaptions, EmbedTexts)
	}
	if err != nil {
		return rep, err
	}
	if !ranks.IsRank0(r.World) {
		return rep, nil
	}
	rep.Rows, rep.Dim, rep.Checkpoint = len(ids), t.Runner.Embeds.Dim(), t.Found
	if err := finite("row", rows, rep.Dim); err != nil {
		return rep, err
	}
	if len(rep.Files) == 2 {
		return rep, writeNPY(rep, rows, ids)
	}
	return rep, writeTensors(r, rep, t, rows, ids)
}

// encodeTexts embeds captions: [N, E] in their order.
func encodeTexts(ctx context.Context, r *models.EmbedRunner, v text.Tokenizer, lines []string, source string,
	o eval.EncodeOptions) (rows []float32, unknownOnly int, err error) {
	if len(lines) == 0 {
		return nil, 0, fmt.Errorf("%s: no captions; expected one a line", source)
	}
	coder := v.NewEncoder()
	ids := make([][]int32, len(lines))
	for i, line := range lines {
		var words, unknown int
		if ids[i], words, unknown = coder.Append(nil, line); words == 0 {
			return nil, 0, fmt.Errorf("%s:%d: no words; expected a caption", source, i+1)
		}
		if words == unknown {
			unknownOnly++
		}
	}
	rows, err = encodeWords(ctx, r, ids, o.Batch, o.Progress)
	return rows, unknownOnly, err
}

// encodeWords embeds captions given as word ids: [N, E] in their order. The ranks of a job divide the batches. Graphs
// are compiled for a number of captions, so the last batch is filled to a power of two with captions of one word.
// Captions of more than longCaption words, which are rare, are embedded one by one.
func encodeWords(ctx context.Context, r *models.EmbedRunner, ids [][]int32, size int, progress func(done,
	total int)) ([]float32, error) {
	e := r.Dim()
	part := make([]float32, size*e)
	atOnce := func(longest int) int {
		if longest > longCaption {
			return 1
		}
		return size
	}
	return eval.EncodeTexts(ctx, r.Model.Instance.Dev, ids, e, atOnce, func(to []float32, b batch.Captions) error {
		for n := len(b.Lengths); len(b.Lengths) < min(size, 1<<bits.Len(uint(n-1))); {
			b.Add(b.Words[0][:1])
		}
		err := r.Captions(part[:len(b.Lengths)*e], b)
		copy(to, part)
		return err
	}, progress)
}

// longCaption is a length in words beyond which captions are not embedded together.
const longCaption = 64

func idLines(ids []string) string { return strings.Join(ids, "\n") + "\n" }

// writeNPY writes ids and array as one set, the array last: neither appears without the other.
func writeNPY(rep EmbedReport, rows []float32, ids []string) error {
	set := &atomicfile.Set{}
	defer set.Abort()
	if err := stageNPY(set, rep, rows, ids); err != nil {
		return err
	}
	return integrity.Commit(set)
}

func stageNPY(set *atomicfile.Set, rep EmbedReport, rows []float32, ids []string) error {
	if err := set.Write(rep.Files[1], []byte(idLines(ids))); err != nil {
		return err
	}
	return npy.Stage(set, rep.Files[0], npy.F32, []int{rep.Rows, rep.Dim}, func(w *npy.Writer) error {
		return w.WriteFloat32(rows)
	})
}

func writeTensors(r EmbedRequest, rep EmbedReport, t *pretrained.Network, rows []float32, ids []string) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	metadata := map[string]string{"format": "pt", "ids": string(list), "kind": r.What,
		"ids_sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(idLines(ids)))),
		"network":    t.Model.Options.Network, "checkpoint": rep.Checkpoint}
	if t.Split != nil {
		metadata["data"], metadata["split"] = t.Split.Dir(), t.Split.Name()
	}
	tensors := []safetensors.Tensor{safetensors.FromFloat32s("embeddings", []int{rep.Rows, rep.Dim}, rows)}
	return integrity.WriteFile(r.Out, func(w io.Writer) error {
		return safetensors.WriteSealed(w, tensors, metadata, nil)
	})
}
