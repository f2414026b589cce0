package extract

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// Preprocessing says how a picture becomes the input of a model, and describes its output. A pixel from 0 to 255
// becomes (pixel/scale - mean)/std.
type Preprocessing struct {
	Input  string `yaml:"input" doc:"name of the input; empty where the model has one"`
	Output string `yaml:"output" doc:"name of the output; empty where the model has one"`

	Resize  int        `yaml:"resize" min:"1" max:"4096" doc:"size in pixels that pictures are brought to"`
	Fit     string     `yaml:"fit" enum:"shorter|stretch" doc:"shorter: resize is the shorter side, the rest is cropped; stretch: both sides"`
	Crop    int        `yaml:"crop" min:"0" max:"4096" doc:"side of the square that is cut from the middle; 0 cuts nothing, only with fit: stretch"`
	Filter  string     `yaml:"filter" enum:"bilinear|bicubic" doc:"interpolation, as Pillow's"`
	Colours string     `yaml:"colours" enum:"rgb|bgr" doc:"order of the channels"`
	Layout  string     `yaml:"layout" enum:"nchw|nhwc" doc:"axes of the input"`
	Scale   float64    `yaml:"scale" above:"0" doc:"what pixel values are divided by: 255, or 1 for none"`
	Mean    [3]float64 `yaml:"mean" doc:"subtracted then, a value for each channel in the order of colours"`
	Std     [3]float64 `yaml:"std" above:"0" doc:"divided by then"`

	Outputs string `yaml:"output_layout" enum:"nchw|nhwc|nrd|nd" doc:"axes of the output: a grid (nchw, nhwc), regions (nrd) or one vector (nd)"`
}

// required are the keys that have no default.
var required = []string{"resize", "fit", "filter", "colours", "layout", "scale", "mean", "std", "output_layout"}

// preprocessingFile returns the file of the description of a model: FILE.yaml next to FILE.onnx.
func preprocessingFile(model string) string {
	return strings.TrimSuffix(model, filepath.Ext(model)) + ".yaml"
}

func loadPreprocessing(file string) (*Preprocessing, error) {
	p := &Preprocessing{}
	if err := config.DecodeFile(file, p, required...); err != nil {
		return nil, err
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func (p *Preprocessing) validate() error {
	switch {
	case p.Crop > p.Resize:
		return &options.Error{Key: "crop", Found: fmt.Sprint(p.Crop), Expected: fmt.Sprintf("at most resize, %d",
			p.Resize)}
	case p.Fit == "shorter" && p.Crop == 0:
		return &options.Error{Key: "crop", Found: "0", Expected: "a size, for pictures of other shapes have other " +
			"sizes with fit: shorter", Remedy: "or set fit: stretch"}
	}
	return nil
}

func (p *Preprocessing) side() int {
	if p.Crop > 0 {
		return p.Crop
	}
	return p.Resize
}

// window is the part of a picture that becomes the input: a square of side pixels at x, y of the picture resized to
// width x height.
type window struct{ width, height, x, y, side int }

// window returns the window of a picture, as torchvision's Resize and CenterCrop.
func (p *Preprocessing) window(width, height int) window {
	w := window{width: p.Resize, height: p.Resize, side: p.side()}
	if p.Fit == "shorter" {
		if width < height {
			w.height = p.Resize * height / width
		} else {
			w.width = p.Resize * width / height
		}
	}
	w.x = int(math.RoundToEven(float64(w.width-w.side) / 2))
	w.y = int(math.RoundToEven(float64(w.height-w.side) / 2))
	return w
}

// check returns an error for a picture so narrow that resizing would give it too many pixels.
func (p *Preprocessing) check(pic *pictures.RGB) error {
	w := p.window(pic.Width, pic.Height)
	if w.height > pictures.MaxPixels/w.width || w.width > pictures.MaxPixels/pic.Height {
		return fmt.Errorf("a picture of %d x %d pixels, which resizing makes %d x %d; use fit: stretch or crop the "+
			"picture", pic.Width, pic.Height, w.width, w.height)
	}
	return nil
}

// tensor writes the input [3, side, side] or [side, side, 3] of a picture that passed check.
func (p *Preprocessing) tensor(dst []float32, pic *pictures.RGB) {
	filter := pictures.Bilinear
	if p.Filter == "bicubic" {
		filter = pictures.Bicubic
	}
	w := p.window(pic.Width, pic.Height)
	pic = pic.Resize(w.width, w.height, filter).Crop(w.x, w.y, w.side, w.side)
	var table [3][256]float32 // float32 throughout, as PyTorch computes
	for c := range table {
		for v := range table[c] {
			table[c][v] = (float32(v)/float32(p.Scale) - float32(p.Mean[c])) / float32(p.Std[c])
		}
	}
	n := w.side * w.side
	for i := range n {
		for c := range 3 {
			from := c
			if p.Colours == "bgr" {
				from = 2 - c
			}
			at := 3*i + c
			if p.Layout == "nchw" {
				at = c*n + i
			}
			dst[at] = table[c][pic.Pix[3*i+from]]
		}
	}
}

// boxes returns the cells [rows·columns, 4] of a grid over the input as boxes x1, y1, x2, y2 in pixels of the picture.
func (p *Preprocessing) boxes(width, height, rows, columns int) []float32 {
	w := p.window(width, height)
	sx, sy := float64(width)/float64(w.width), float64(height)/float64(w.height)
	at := func(from, i, n int, scale float64) float32 {
		return float32((float64(from) + float64(i)*float64(w.side)/float64(n)) * scale)
	}
	var out []float32
	for y := range rows {
		for x := range columns {
			out = append(out, at(w.x, x, columns, sx), at(w.y, y, rows, sy), at(w.x, x+1, columns, sx),
				at(w.y, y+1, rows, sy))
		}
	}
	return out
}
