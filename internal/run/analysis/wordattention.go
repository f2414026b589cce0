package analysis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// WordAttention holds how the words of a caption attend to the regions of an image in a network that scores pairs
// (models.WordAttender), as its forward pass computes it.
type WordAttention struct {
	Checkpoint string
	Image      int // 0..NumImages-1
	ImageID    string
	Caption    int // 0..NumCaptions-1
	Text       string
	Score      float64
	// AttendsWords says that the regions attend to the words: the weights of each region sum to 1 over the words, not
	// the other way round.
	AttendsWords bool
	Stored       bool // the boxes are those of the data set; otherwise the regions are the cells of a grid, row by row
	Words        []WordMap
}

// WordMap is the attention of one word: its Scores are the weights of the regions.
type WordMap struct {
	Word string
	Attention
}

// Layer is the box of a region in the picture of a word.
type Layer struct {
	Box    [4]float64 // x1, y1, x2, y2 as shares of width and height
	Weight float64
	Veil   float64 // opacity of black over what the box shows: 0 for the largest weight of the word
	Place  int     // 1, 2 or 3 for the three largest weights, of which boxes are outlined; else 0
}

// MostVeil is the opacity of black outside all boxes and in boxes without weight. The picture stays visible below it.
const MostVeil = 0.8

// Layers returns the regions by increasing weight. A box replaces the veil of the boxes before it, so a place that
// several boxes cover shows the largest of their weights.
func (m *WordMap) Layers() []Layer {
	out := make([]Layer, len(m.Scores))
	for i, w := range m.Scores {
		out[i] = Layer{Box: m.Boxes[i], Weight: w}
	}
	slices.SortStableFunc(out, func(a, b Layer) int { return cmp.Compare(a.Weight, b.Weight) })
	for i := range out {
		l, place := &out[i], len(out)-i
		l.Veil = MostVeil
		if most := out[len(out)-1].Weight; most > 0 {
			l.Veil = MostVeil * (1 - max(0, l.Weight)/most)
		}
		if place <= 3 && l.Weight > 0 {
			l.Place = place
		}
	}
	return out
}

// Largest writes the weights of the outlined boxes, the largest first.
func (m *WordMap) Largest() string {
	var weights []string
	for _, l := range slices.Backward(m.Layers()) {
		if l.Place > 0 {
			weights = append(weights, fmt.Sprintf("%.2f", l.Weight))
		}
	}
	return strings.Join(weights, ", ")
}

// AttendPair computes the attention between an image and a caption of the split of a trained network.
func AttendPair(ctx context.Context, t *pretrained.Network, image, caption int) (*WordAttention, error) {
	if t.Runner.Pairs == nil {
		return nil, fmt.Errorf("%s: network %s has one vector per caption; only the words of %v attend to "+
			"regions", t.Found, t.Model.Options.Network,
			models.NamesWhere(func(t models.Traits) bool { return t.WordAttention }))
	}
	s, k := t.Split, t.Split.Regions()
	if image < 0 || image >= s.NumImages() || caption < 0 || caption >= s.NumCaptions() {
		return nil, fmt.Errorf("image %d of %d, caption %d of %d", image, s.NumImages(), caption, s.NumCaptions())
	}
	row := s.RowOf(image)
	features := make([]float32, k*s.Dim())
	if err := s.ReadImage(features, row); err != nil {
		return nil, err
	}
	boxes, width, height, stored, err := boxesOf(t, row)
	if err != nil {
		return nil, err
	}
	b := batch.Images{N: 1, Features: features}
	if t.Model.Options.Traits().Boxes {
		b.Boxes = boxes
	}
	var images models.EncodedSet
	if err := t.Runner.Pairs.AppendImages(&images, b, 1); err != nil {
		return nil, err
	}
	captions, ids, err := eval.EncodePairCaption(ctx, t.Runner.Pairs, s, t.Tokenizer, caption)
	if err != nil {
		return nil, err
	}
	weights, err := t.Runner.Pairs.Attention(&images, 0, captions, 0)
	if err != nil {
		return nil, err
	}
	var score [1]float32
	if err := t.Runner.Pairs.Score(score[:], &images, 0, 1, captions, 0, 1, models.Bucket(len(ids))); err != nil {
		return nil, err
	}
	out := &WordAttention{Checkpoint: t.Found, Image: image, ImageID: s.ImageID(row), Caption: caption,
		Text: s.Caption(caption), Score: float64(score[0]), Stored: stored, AttendsWords: t.Runner.Pairs.AttendsWords()}
	one := Attention{Checkpoint: t.Found, Image: image, ImageID: out.ImageID, Width: width, Height: height}
	for j := range k {
		one.Boxes = append(one.Boxes, [4]float64{float64(boxes[4*j]), float64(boxes[4*j+1]), float64(boxes[4*j+2]),
			float64(boxes[4*j+3])})
	}
	for j, word := range readWords(t.Tokenizer, ids, out.Text) {
		m := WordMap{Word: word, Attention: one}
		for _, w := range weights[j*k : (j+1)*k] {
			m.Scores = append(m.Scores, float64(w))
		}
		out.Words = append(out.Words, m)
	}
	return out, nil
}

// readWords returns the words of a caption as the network reads them: the words of the text where they fit the ids,
// else the words of the tokenizer.
func readWords(l text.Tokenizer, ids []int32, caption string) []string {
	out := make([]string, len(ids))
	v, ok := l.(*text.Vocabulary)
	for i, id := range ids {
		if out[i] = fmt.Sprint(id); ok {
			out[i] = v.Word(id)
		}
	}
	var tok text.WordSplitter
	if words := tok.Words(caption); len(words)+2 == len(ids) {
		for i, w := range words {
			out[i+1] = string(w)
		}
	}
	return out
}

// boxesOf returns the boxes [R, 4] of a row, as shares of width and height, and the size of its picture. Without boxes
// in the data set the regions are taken for the cells of a grid, row by row, in a square picture.
func boxesOf(t *pretrained.Network, row int) (boxes []float32, width, height float64, stored bool, err error) {
	s := t.Split
	k := s.Regions()
	if !s.HasBoxes() {
		if !data.BoxesStored(s.Dir(), s.Name()) {
			return gridBoxes(k), 1, 1, false, nil
		}
		o := t.Data
		if s, err = data.Open(s.Dir(), s.Name(), data.OpenOptions{CaptionsPerImage: o.CaptionsPerImage.Of(s.Name()),
			FeatureDType: o.FeatureDType, Boxes: true}); err != nil {
			return nil, 0, 0, false, err
		}
		defer s.Close()
	}
	boxes = make([]float32, 4*k)
	if err := s.ReadBoxes(boxes, row); err != nil {
		return nil, 0, 0, false, err
	}
	w, h := s.ImageSize(row)
	return boxes, float64(w), float64(h), true, nil
}

// gridBoxes cuts a picture into k cells or a few more: as many columns as the root of k, row by row.
func gridBoxes(k int) []float32 {
	columns := int(math.Ceil(math.Sqrt(float64(k))))
	rows := (k + columns - 1) / columns
	var out []float32
	for i := range k {
		x, y := i%columns, i/columns
		out = append(out, float32(x)/float32(columns), float32(y)/float32(rows), float32(x+1)/float32(columns),
			float32(y+1)/float32(rows))
	}
	return out
}

// AttendWords computes the attention between images with the given ids and the first of their captions each, in a
// trained network: a run directory or a checkpoint.
func AttendWords(ctx context.Context, r pretrained.AnalysisRequest, checkpoint string, ids []string) ([]*WordAttention,
	error) {
	l, err := r.Load(checkpoint, false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	numbers, err := imagesByID(l.Split, ids)
	if err != nil {
		return nil, err
	}
	var out []*WordAttention
	for _, i := range numbers {
		a, err := AttendPair(ctx, l, i, l.Split.Groups().First(i))
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}
