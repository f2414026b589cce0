package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/onnx"
	"vsetrain/internal/run/trained"
	"vsetrain/models"
)

// Files that ExportONNX writes beside the vocabulary.
const (
	ONNXImages        = "image_encoder.onnx"
	ONNXCaptions      = "caption_encoder.onnx"
	ONNXPreprocessing = "preprocessing.json"
)

// apart is the ending of the file of weights of a model that has them outside.
const apart = ".data"

// preprocessing is what a program has to know to run the two encoders.
type preprocessing struct {
	Format     int          `json:"format"` // 1
	Network    string       `json:"network"`
	Checkpoint string       `json:"checkpoint"`
	Opset      int          `json:"opset"`
	EmbedDim   int          `json:"embed_dim"`
	Score      string       `json:"score"`
	Image      onnxImage    `json:"image"`
	Caption    onnxCaption  `json:"caption"`
	Tokens     tokenisation `json:"tokenisation"`
}

type onnxImage struct {
	File       string `json:"file"`
	Input      string `json:"input"`
	Type       string `json:"type"`
	Shape      []any  `json:"shape"`
	Scaling    string `json:"feature_normalisation"`
	Output     string `json:"output"`
	Normalised bool   `json:"output_l2_normalised"`
}

type onnxCaption struct {
	File       string `json:"file"`
	IDs        string `json:"ids"`
	Lengths    string `json:"lengths"`
	Type       string `json:"type"`
	Longest    int    `json:"longest,omitempty"` // 0 is any
	Output     string `json:"output"`
	Normalised bool   `json:"output_l2_normalised"`
}

// tokenisation says how a caption becomes ids: start, its words, end, then padding up to the length of the batch.
// lengths count start and end, and no padding.
type tokenisation struct {
	Vocabulary string `json:"vocabulary"`
	Hash       string `json:"vocabulary_hash"`
	Tokeniser  string `json:"tokeniser"`
	Lowercase  bool   `json:"lowercase"`
	Start      int32  `json:"start_id"`
	End        int32  `json:"end_id"`
	Unknown    int32  `json:"unknown_id"`
	Pad        int32  `json:"pad_id"`
}

// ExportONNX writes the encoders of an embedder as models of ONNX into a folder, with the vocabulary and what a program
// has to know to run them. vocab, where given, is the file of the vocabulary; a run directory has its own. It returns
// the files and what the checkpoint is. The description comes last: a folder without it is incomplete.
func ExportONNX(in, dir, vocab string, force bool) (files []string, found string, err error) {
	if _, ok, err := trained.RunOf(in); err == nil && !ok && vocab == "" {
		return nil, "", fmt.Errorf("%s is in no run directory, so its vocabulary is not known; name the one it was "+
			"trained with with --vocab", in)
	}
	p, err := (&trained.Request{Checkpoint: in, Vocab: vocab}).Prepare()
	if err != nil {
		return nil, "", err
	}
	t, err := p.Start(&trained.Request{Device: device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}})
	if err != nil {
		return nil, "", err
	}
	defer t.Close()
	e, err := t.Model.ONNX()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", t.Name, err)
	}
	d := describeONNX(t, e)
	d.Checkpoint = t.Found
	for _, name := range []string{ONNXImages, ONNXImages + apart, ONNXCaptions, ONNXCaptions + apart,
		d.Tokens.Vocabulary, ONNXPreprocessing} {
		if err := RefuseOverwrite(filepath.Join(dir, name), force); err != nil {
			return nil, "", err
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, "", err
	}
	files, err = writeONNX(dir, e, t.Lexicon, d)
	return files, t.Found, err
}

func describeONNX(t *trained.Trained, e *models.ONNX) *preprocessing {
	m := t.Model
	d := &preprocessing{Format: 1, Network: m.Options.Network, Opset: onnx.Opset, EmbedDim: m.Options.EmbedDim,
		Score: e.Score}
	d.Image = onnxImage{File: ONNXImages, Input: models.ONNXRegions, Type: "float32",
		Shape: []any{"batch", m.Dims.Regions, m.Dims.Feature}, Scaling: "none", Output: models.ONNXEmbedding,
		Normalised: e.NormalisedImages}
	if e.AnyRegions {
		d.Image.Shape[1] = "regions"
	}
	d.Caption = onnxCaption{File: ONNXCaptions, IDs: models.ONNXWords, Lengths: models.ONNXLengths, Type: "int64",
		Output: models.ONNXEmbedding, Normalised: e.NormalisedCaptions}
	d.Tokens = tokenisation{Vocabulary: t.Lexicon.FileName(), Hash: t.Lexicon.Hash(),
		Tokeniser: "nltk 3.8.1 word_tokenize", Lowercase: true, Start: text.Start, End: text.End, Unknown: text.Unk,
		Pad: text.Pad}
	if b, ok := t.Lexicon.(*text.BertCaptions); ok {
		d.Caption.Longest = b.Max
		d.Tokens.Tokeniser, d.Tokens.Start, d.Tokens.End = "bert word pieces", b.Cls, b.Sep
		d.Tokens.Unknown, d.Tokens.Pad = b.Unk, b.Pad
	}
	return d
}

// writeONNX writes all files as one set.
func writeONNX(dir string, e *models.ONNX, v text.Lexicon, d *preprocessing) ([]string, error) {
	set := &atomicfile.Set{}
	defer set.Abort()
	add := func(name string, write func(io.Writer) error) error {
		f, err := atomicfile.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		set.Add(f)
		return write(f)
	}
	model := func(name string, g *onnx.Graph) error {
		if g.Fits() {
			set.Remove(filepath.Join(dir, name+apart))
			return add(name, g.Encode)
		}
		return add(name+apart, func(weights io.Writer) error {
			return add(name, func(w io.Writer) error { return g.EncodeApart(w, weights, name+apart) })
		})
	}
	err := errors.Join(model(ONNXImages, e.Images), model(ONNXCaptions, e.Captions))
	if err != nil {
		return nil, err
	}
	// the lexicon writes a file of its own, which the set takes over
	temp := filepath.Join(dir, "."+d.Tokens.Vocabulary+".new")
	if err := v.Save(temp); err != nil {
		return nil, err
	}
	set.Add(atomicfile.Adopt(temp, filepath.Join(dir, d.Tokens.Vocabulary)))
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := add(ONNXPreprocessing, atomicfile.Bytes(append(b, '\n'))); err != nil {
		return nil, err
	}
	files := set.Paths()
	return files, set.Commit()
}
