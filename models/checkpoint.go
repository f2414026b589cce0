package models

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/system/build"
	"vsetrain/models/nn"
)

// A checkpoint is one safetensors file, so that it can be replaced atomically. It holds the weights under the
// references' parameter names with the part of the network in front ("img.fc.weight"), then the tensors of the training
// state ("optim/m/img.fc.weight"). The metadata holds a description of the network and a checksum of the whole file.

// extraPrefix begins the names of the tensors of the training state.
const extraPrefix = "optim/"

// Info describes the network of a checkpoint.
type Info struct {
	Format     int               `json:"format"`
	Build      string            `json:"build,omitempty"` // version and commit of the program that wrote it
	Model      Options           `json:"model"`
	Dims       Dims              `json:"dims"`
	Vocabulary string            `json:"vocabulary"`            // text.Vocabulary.Hash
	Words      *Words            `json:"word_init,omitempty"`   // pretrained word vectors; nil if they were drawn
	Noise      *runfs.NoiseIndex `json:"noise_index,omitempty"` // of the training captions
	Mined      string            `json:"mined,omitempty"`       // SHA-256 of the mined negatives of the training
	Step       int64             `json:"step"`
	Epoch      float64           `json:"epoch"`
	Score      float64           `json:"score"` // validation score of these weights, 0 if they were not validated
	// Train is the training state that belongs to the extra tensors. A checkpoint of weights alone has none.
	Train json.RawMessage `json:"train,omitempty"`
	// SHA256 is the checksum of the file that the description was read from, "" if it has none.
	SHA256 string `json:"-"`
}

const (
	infoFormat   = 2
	firstFormat  = 1 // of files without a checksum
	metadataInfo = "vsetrain"
)

// Extra is a tensor of the training state, in device or host memory.
type Extra struct {
	Name  string
	Shape []int
	View  device.View
	Host  *[]float64 // in place of View; stored in float64
}

// WriteCheckpoint writes a model and extra tensors with the values of from, which is the device of the model or a Copy.
func WriteCheckpoint(w io.Writer, m *Model, from Values, info Info, extra []Extra) error {
	info.Format, info.Build, info.Model, info.Dims = infoFormat, build.Current().String(), m.Options, m.Dims
	info.Words, info.Noise, info.Mined = m.Words, m.Noise, m.Mined
	desc, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("describe checkpoint: %w", err)
	}
	var all []Extra
	for _, p := range m.Params() {
		all = append(all, Extra{Name: p.Name, Shape: p.Shape, View: m.Instance.Params.Value(p.Name)})
	}
	all = append(all, extra...)
	dtype := "F32"
	if from.Float64() {
		dtype = "F64"
	}
	specs := make([]safetensors.Tensor, len(all))
	for i, e := range all {
		specs[i] = safetensors.Tensor{Name: e.Name, DType: dtype, Shape: e.Shape}
		if e.Host != nil {
			specs[i].DType = "F64"
		}
	}
	err = safetensors.WriteSealed(w, specs, map[string]string{metadataInfo: string(desc), "format": "pt"},
		func(i int, w io.Writer) error {
			if h := all[i].Host; h != nil {
				return binary.Write(w, binary.LittleEndian, *h)
			}
			return writeValues(w, from, all[i].View)
		})
	if err != nil {
		return err
	}
	return from.Sync() // a device that failed gave NaN
}

// Checkpoint is an open checkpoint file.
type Checkpoint struct {
	Path string
	Info Info
	file *safetensors.File
}

// OpenCheckpoint opens a checkpoint of vsetrain, or the best checkpoint of a run directory. It reads the whole file to
// verify its checksum.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	path, err := FindCheckpoint(path)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: path, file: f}
	if err := c.open(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ReadInfo returns the description of a checkpoint file of vsetrain without reading its weights.
func ReadInfo(path string) (Info, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	info, err := readInfo(f)
	if err != nil {
		return info, fmt.Errorf("%s: %w", path, err)
	}
	return info, nil
}

func readInfo(f *safetensors.File) (Info, error) {
	i := Info{Model: DefaultOptions()} // options that an older description lacks have their defaults
	desc, ok := f.Metadata()[metadataInfo]
	if !ok {
		return i, fmt.Errorf("this safetensors file was not written by vsetrain (no %q in its metadata); "+
			"import a PyTorch checkpoint with 'vsetrain import'", metadataInfo)
	}
	if err := json.Unmarshal([]byte(desc), &i); err != nil {
		return i, fmt.Errorf("broken description: %w", err)
	}
	i.SHA256 = f.Seal()
	return i, nil
}

// open reads the description and verifies the checksum.
func (c *Checkpoint) open() (err error) {
	if c.Info, err = readInfo(c.file); err != nil {
		return err
	}
	if f := c.Info.Format; f < firstFormat || f > infoFormat {
		return fmt.Errorf("checkpoint format %d, this vsetrain reads %d to %d", f, firstFormat, infoFormat)
	}
	sealed, err := c.file.Verify()
	if err != nil {
		return err
	}
	if !sealed && c.Info.Format > firstFormat {
		return fmt.Errorf("checkpoint format %d without its checksum: the file is damaged or was changed; use "+
			"another copy of it", c.Info.Format)
	}
	return c.check()
}

// check compares the description with the tensors before anything is allocated for the sizes that it names.
func (c *Checkpoint) check() error {
	if err := c.Info.Model.Validate(); err != nil {
		return fmt.Errorf("broken description: %w", err)
	}
	n, err := newNetwork(c.Info.Model, c.Info.Dims)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, p := range n.Params() {
		known[p.Name] = true
		if t, ok := c.file.Tensor(p.Name); !ok || !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("broken description: network %s of these sizes has a tensor %s of shape %v, the file %s",
				c.Info.Model.Network, p.Name, p.Shape, found(t, ok))
		}
	}
	for _, name := range c.file.Names() {
		if !known[name] && !strings.HasPrefix(name, extraPrefix) && !strings.HasPrefix(name, LearnedPart) {
			return fmt.Errorf("network %s has no tensor %s", c.Info.Model.Network, name)
		}
	}
	return nil
}

func found(t safetensors.Tensor, ok bool) string {
	if !ok {
		return "has none"
	}
	return fmt.Sprintf("one of shape %v", t.Shape)
}

// HubName is the weights file in a folder with the layout of the Hugging Face Hub.
const HubName = "model.safetensors"

// FindCheckpoint returns the checkpoint file that a user means: the file itself, the best checkpoint of a run directory
// (the last one before the first validation), or the weights in a folder with the layout of the Hub.
func FindCheckpoint(path string) (string, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("checkpoint %w", regular.Missing{Path: path})
	}
	if err != nil {
		return "", fmt.Errorf("checkpoint %s: %w", path, withoutPath(err))
	}
	if !st.IsDir() {
		return path, nil
	}
	for _, f := range []string{filepath.Join(path, runfs.CheckpointsName, runfs.BestName),
		filepath.Join(path, runfs.CheckpointsName, runfs.LastName), filepath.Join(path, runfs.BestName),
		filepath.Join(path, runfs.LastName), filepath.Join(path, HubName)} {
		switch there, err := runfs.Exists(f); {
		case err != nil:
			return "", err
		case there:
			return f, nil
		}
	}
	return "", noCheckpoint(path)
}

// noCheckpoint is the error for a directory without a checkpoint. It lists the runs in it.
func noCheckpoint(dir string) error {
	runs, _ := runfs.FindRuns(dir)
	if len(runs) == 1 && runs[0] == "." {
		return fmt.Errorf("%s: this run has no checkpoint yet; the first validation writes one", dir)
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s: no checkpoint in this directory: expected a run directory, with %s/best.safetensors or "+
			"last.safetensors", dir, runfs.CheckpointsName)
	}
	const shown = 10
	var names []string
	for _, r := range runs[:min(shown, len(runs))] {
		names = append(names, filepath.Join(dir, filepath.FromSlash(r)))
	}
	list := strings.Join(names, ", ")
	if len(runs) > shown {
		list += fmt.Sprintf(" ... (%d in all)", len(runs))
	}
	return fmt.Errorf("%s: no checkpoint in this directory; name a run in it: %s", dir, list)
}

// withoutPath removes the operation and path from an error of package os.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Close unmaps the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Restore reads the weights of a model. The checkpoint must hold all of the model's parameters. Only a part that serves
// training alone may be missing: its parameters stay as they are.
func (c *Checkpoint) Restore(m *Model) error {
	if c.Info.Model.Network != m.Options.Network {
		return fmt.Errorf("%s: checkpoint of network %s, want %s", c.Path, c.Info.Model.Network, m.Options.Network)
	}
	for _, p := range m.Params() {
		if _, ok := c.file.Tensor(p.Name); !ok && trainingOnly(m.Network, p.Name) {
			continue
		}
		v := m.Instance.Params.Value(p.Name)
		if err := c.RestoreTensor(m.Instance.Dev, p.Name, p.Shape, v); err != nil {
			return err
		}
		if p.Within == nil {
			continue
		}
		var x [1]float64
		m.Instance.Dev.DownloadDoubles(x[:], v)
		const slack = 1e-6 // the stored ends of the range are rounded to float32
		if lo, hi := p.Within[0], p.Within[1]; x[0] < lo-slack*math.Abs(lo) || x[0] > hi+slack*math.Abs(hi) {
			return fmt.Errorf("%s: %s is %v, expected a number from %v to %v, the range of the loss; it was trained "+
				"with another loss or option: choose that one, or start from other weights", c.Path, p.Name, x[0], lo,
				hi)
		}
	}
	m.Words, m.Noise, m.Mined = c.Info.Words, c.Info.Noise, c.Info.Mined
	return nil
}

// Learned implements Weights.
func (c *Checkpoint) Learned() (list []*nn.Param) {
	for _, name := range c.file.Names() {
		if t, _ := c.file.Tensor(name); strings.HasPrefix(name, LearnedPart) {
			list = append(list, &nn.Param{Name: name, Shape: t.Shape})
		}
	}
	return list
}

// Doubles reads a float64 vector of any length.
func (c *Checkpoint) Doubles(name string) ([]float64, error) {
	t, ok := c.file.Tensor(name)
	if !ok || t.DType != "F64" || len(t.Shape) != 1 {
		return nil, fmt.Errorf("%s: no float64 vector %s; the memory of the loss is in last.safetensors of a run with "+
			"that loss", c.Path, name)
	}
	x, err := float64s(c.file, t)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %s: %w", c.Path, name, err)
	}
	return x, nil
}

// RestoreTensor reads one tensor into dst. It must have the given shape.
func (c *Checkpoint) RestoreTensor(dev device.Device, name string, shape []int, dst device.View) error {
	t, ok := c.file.Tensor(name)
	if !ok {
		return fmt.Errorf("%s: tensor %s is missing", c.Path, name)
	}
	if !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("%s: tensor %s has shape %v, the network wants %v; was it trained with other sizes or "+
			"another vocabulary?", c.Path, name, t.Shape, shape)
	}
	if t.DType == "F64" {
		buf, err := float64s(c.file, t)
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", c.Path, name, err)
		}
		dev.UploadDoubles(dst, buf)
		return nil
	}
	buf := make([]float32, dst.N)
	if err := c.file.Float32s(name, buf); err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	if err := checkFinite(buf); err != nil {
		return fmt.Errorf("%s: tensor %s: %w", c.Path, name, err)
	}
	dev.UploadFloats(dst, buf)
	return nil
}
