package checkpoints

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/files/onnx"
	"vsetrain/models"
)

// Files that ExportONNX writes beside the vocabulary.
const (
	ONNXImages        = "image_encoder.onnx"
	ONNXCaptions      = "caption_encoder.onnx"
	ONNXPreprocessing = "preprocessing.json"
)

// apart is the extension of the file with the weights of a model that stores them outside.
const apart = ".data"

// preprocessing is what a program needs to know to run the two encoders.
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

// tokenisation describes how a caption becomes ids: start, its words, end, then padding up to the length of the batch.
// lengths include start and end, but no padding.
type tokenisation struct {
	Vocabulary string `json:"vocabulary"`
	Hash       string `json:"vocabulary_hash"`
	Tokeniser  string `json:"tokeniser"`
	Lowercase  bool   `json:"lowercase"`
	// further changes that a BERT makes to letters (text.Normalizer)
	StripAccents *bool `json:"strip_accents,omitempty"`
	Chinese      *bool `json:"tokenize_chinese_chars,omitempty"`
	Start        int32 `json:"start_id"`
	End          int32 `json:"end_id"`
	Unknown      int32 `json:"unknown_id"`
	Pad          int32 `json:"pad_id"`
}

// ExportONNX writes the encoders of an embedder as ONNX models into a folder, together with the vocabulary and a
// description of how to run them. It returns the files and a description of the checkpoint. The description of the
// folder is written last: a folder without it is incomplete.
func ExportONNX(from Source, dir string, force bool) (files []string, found string, err error) {
	in := from.Checkpoint
	c, err := from.convert(func(m *models.Model, c models.Weights, v text.Tokenizer) (err error) {
		e, err := m.ONNX()
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(filepath.Clean(in)), err)
		}
		if err := needsVocabulary(in, v); err != nil {
			return err
		}
		f, err := newFolder(dir, force, append(onnxNames(), vocabularyNames(v)...))
		if err != nil {
			return err
		}
		defer f.Abort()
		d := describeONNX(m, v, e, c.Describe())
		if err := errors.Join(f.addEncoders(e), f.addVocabulary(v), f.addJSON(ONNXPreprocessing, d)); err != nil {
			return err
		}
		files = f.Paths()
		return f.Commit()
	})
	if err != nil {
		return nil, "", err
	}
	return files, c.Describe(), nil
}

// onnxNames are the files of the encoders.
func onnxNames() []string {
	return []string{ONNXImages, ONNXImages + apart, ONNXCaptions, ONNXCaptions + apart, ONNXPreprocessing}
}

// needsVocabulary returns an error if the vocabulary of the weights is unknown.
func needsVocabulary(in string, v text.Tokenizer) error {
	if v != nil {
		return nil
	}
	return fmt.Errorf("%s is in no run directory, so its vocabulary is not known; name the one it was trained with "+
		"with --vocab", in)
}

func describeONNX(m *models.Model, v text.Tokenizer, e *models.ONNX, checkpoint string) *preprocessing {
	d := &preprocessing{Format: 1, Network: m.Options.Network, Checkpoint: checkpoint, Opset: onnx.Opset,
		EmbedDim: m.Options.EmbedDim, Score: e.Score}
	d.Image = onnxImage{File: ONNXImages, Input: models.ONNXRegions, Type: "float32",
		Shape: []any{"batch", m.Dims.Regions, m.Dims.Feature}, Scaling: "none", Output: models.ONNXEmbedding,
		Normalised: e.NormalisedImages}
	if e.AnyRegions {
		d.Image.Shape[1] = "regions"
	}
	d.Caption = onnxCaption{File: ONNXCaptions, IDs: models.ONNXWords, Lengths: models.ONNXLengths, Type: "int64",
		Output: models.ONNXEmbedding, Normalised: e.NormalisedCaptions}
	d.Tokens = tokenisation{Vocabulary: v.FileName(), Hash: v.Hash(),
		Tokeniser: "nltk 3.8.1 word_tokenize", Lowercase: true, Start: text.Start, End: text.End, Unknown: text.Unk,
		Pad: text.Pad}
	if b, ok := v.(*text.BertTokenizer); ok {
		d.Caption.Longest = b.Max
		d.Tokens.Tokeniser, d.Tokens.Start, d.Tokens.End = "bert word pieces", b.Cls, b.Sep
		d.Tokens.Unknown, d.Tokens.Pad = b.Unk, b.Pad
		n := b.Normalizer
		d.Tokens.Lowercase, d.Tokens.StripAccents, d.Tokens.Chinese = n.Lowercase, &n.StripAccents, &n.Chinese
	}
	return d
}

func (f folder) addEncoders(e *models.ONNX) error {
	return errors.Join(f.addModel(ONNXImages, e.Images), f.addModel(ONNXCaptions, e.Captions))
}

// addModel writes an ONNX model, with its weights in a separate file if they are too large for one.
func (f folder) addModel(name string, g *onnx.Graph) error {
	if g.Fits() {
		f.Remove(filepath.Join(f.Dir, name+apart))
		return f.Write(name, g.Encode)
	}
	return f.Write(name+apart, func(weights io.Writer) error {
		return f.Write(name, func(w io.Writer) error { return g.EncodeApart(w, weights, name+apart) })
	})
}
