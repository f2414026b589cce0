package extract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/data"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/system/onnxruntime"
)

// Extractor is a model with its preprocessing.
type Extractor struct {
	Model        string // path
	Hash         string // SHA-256 of the model, its file of weights and its preprocessing
	Regions, Dim int    // of the features of a picture
	Runtime      string // version of ONNX Runtime

	rows, columns int // of the grid; 0 for regions and vectors
	prep          *Preprocessing
	session       session
	input, output string
}

// session runs a model; *onnxruntime.Session is one.
type session interface {
	Run(input string, x onnxruntime.Tensor, output string) (onnxruntime.Tensor, error)
	Close()
}

// Open opens a model and its description, and runs it once to find the shape of its output. getenv reads the
// environment (onnxruntime.Setting).
func Open(model string, getenv func(string) string, threads int) (_ *Extractor, err error) {
	const made = "expected FILE.onnx with its description FILE.yaml beside it; scripts/torch_backbone_to_onnx.py " +
		"writes both from a network of torchvision (docs/data.md)"
	if strings.ToLower(filepath.Ext(model)) != ".onnx" {
		return nil, fmt.Errorf("model %s: %s", model, made)
	}
	f, _, err := regular.Open(model)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model: %w; %s", err, made)
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	f.Close()
	x := &Extractor{Model: model}
	if x.prep, err = loadPreprocessing(preprocessingFile(model)); err != nil {
		return nil, err
	}
	if x.Hash, err = hash(model); err != nil {
		return nil, err
	}
	s, err := onnxruntime.Open(model, getenv, threads)
	if err != nil {
		return nil, regular.Explain(err, model)
	}
	x.session, x.Runtime = s, s.Version
	if err := x.ports(s.Inputs, s.Outputs); err != nil {
		x.Close()
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	return x, nil
}

// Close releases the model.
func (x *Extractor) Close() { x.session.Close() }

// Made returns an error if another model made the features of a record.
func (x *Extractor) Made(r *data.ExtractorRecord) error {
	if r.Hash == x.Hash {
		return nil
	}
	return fmt.Errorf("%s is not the model that made the features of the data set, %s (SHA-256 %.12s, not %.12s with "+
		"its weights and preprocessing): scores would mean nothing", x.Model, r.Model, r.Hash, x.Hash)
}

// Features names the model of the extractor.
func (x *Extractor) Features() inputs.Features {
	return inputs.Features{Model: filepath.Base(x.Model), SHA256: x.Hash}
}

// hash returns the digest of everything but the pictures that features depend on.
func hash(model string) (string, error) {
	h := sha256.New()
	for _, path := range []string{model, model + ".data", preprocessingFile(model)} {
		f, size, err := regular.Open(path)
		if errors.Is(err, fs.ErrNotExist) && path == model+".data" {
			continue
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%d\n", size)
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ports finds input and output and runs the model on a black picture.
func (x *Extractor) ports(inputs, outputs []onnxruntime.Port) error {
	in, err := onnxruntime.Find("input", inputs, x.prep.Input)
	if err != nil {
		return err
	}
	out, err := onnxruntime.Find("output", outputs, x.prep.Output)
	if err != nil {
		return err
	}
	x.input, x.output = in.Name, out.Name
	want := x.shape(1)
	for i, d := range in.Shape {
		if len(in.Shape) != 4 || i > 0 && d > 0 && d != want[i] {
			return fmt.Errorf("input %q has the shape %v, the preprocessing makes %v; correct %s", in.Name, in.Shape,
				append([]int64{-1}, want[1:]...), preprocessingFile(x.Model))
		}
	}
	if len(in.Shape) == 4 && in.Shape[0] > 1 {
		return fmt.Errorf("input %q is for batches of %d; export the model with a dynamic first axis", in.Name,
			in.Shape[0])
	}
	side := int64(x.prep.side())
	y, err := x.session.Run(x.input, onnxruntime.Tensor{Shape: want, Values: make([]float32, 3*side*side)}, x.output)
	if err != nil {
		return err
	}
	return x.outputs(y.Shape)
}

// outputs reads the sizes of regions and features from the shape of the output for one picture.
func (x *Extractor) outputs(shape []int64) error {
	axes := map[string]int{"nchw": 4, "nhwc": 4, "nrd": 3, "nd": 2}[x.prep.Outputs]
	if len(shape) != axes || shape[0] != 1 || slices.Contains(shape, 0) {
		return fmt.Errorf("output %q has the shape %v for one picture; output_layout: %s expects %d axes, the first 1",
			x.output, shape, x.prep.Outputs, axes)
	}
	n := make([]int, axes)
	for i, d := range shape {
		n[i] = int(d)
	}
	switch x.prep.Outputs {
	case "nchw":
		x.Dim, x.rows, x.columns = n[1], n[2], n[3]
	case "nhwc":
		x.rows, x.columns, x.Dim = n[1], n[2], n[3]
	case "nrd":
		x.Regions, x.Dim = n[1], n[2]
	default:
		x.Regions, x.Dim = 1, n[1]
	}
	if x.rows > 0 {
		x.Regions = x.rows * x.columns
	}
	return nil
}

func (x *Extractor) shape(n int) []int64 {
	side := int64(x.prep.side())
	if x.prep.Layout == "nchw" {
		return []int64{int64(n), 3, side, side}
	}
	return []int64{int64(n), side, side, 3}
}

func (x *Extractor) size() int { return 3 * x.prep.side() * x.prep.side() }

// HasBoxes reports whether the regions are the cells of a grid, which have boxes.
func (x *Extractor) HasBoxes() bool { return x.rows > 0 }

// Boxes returns the boxes [Regions, 4] of a grid in the pixels of a picture.
func (x *Extractor) Boxes(width, height int) []float32 {
	return x.prep.boxes(width, height, x.rows, x.columns)
}

// Picture computes the features [Regions, Dim] of one picture.
func (x *Extractor) Picture(ctx context.Context, p *pictures.RGB) ([]float32, error) {
	if err := x.prep.check(p); err != nil {
		return nil, err
	}
	in := make([]float32, x.size())
	x.prep.tensor(in, p)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return x.features(in, 1)
}

// features computes the features of n inputs: [n, Regions, Dim].
func (x *Extractor) features(in []float32, n int) ([]float32, error) {
	y, err := x.session.Run(x.input, onnxruntime.Tensor{Shape: x.shape(n), Values: in}, x.output)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.Model, err)
	}
	if len(y.Values) != n*x.Regions*x.Dim {
		return nil, fmt.Errorf("%s: output of shape %v for %d pictures, expected %d values", x.Model, y.Shape, n,
			n*x.Regions*x.Dim)
	}
	for i, v := range y.Values {
		if v != v || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%s: value %d of the output is %v; does the preprocessing match the model?", x.Model,
				i, v)
		}
	}
	if x.prep.Outputs != "nchw" {
		return y.Values, nil
	}
	out := make([]float32, len(y.Values))
	for k := range n {
		from, to := y.Values[k*x.Regions*x.Dim:], out[k*x.Regions*x.Dim:]
		for d := range x.Dim {
			for r := range x.Regions {
				to[r*x.Dim+d] = from[d*x.Regions+r]
			}
		}
	}
	return out, nil
}
