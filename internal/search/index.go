package search

import (
	"context"
	"errors"

	"vsetrain/data"
)

// Index is an encoded split that answers queries. Its methods may be called from several goroutines at once, Close apart; the network
// runs for one of them at a time.
type Index struct {
	opt   Options
	split *data.Split
}

// Open opens the checkpoints and the split and encodes every image and every caption, or finds the encodings in the cache.
// Errors name the file and the remedy: no such run, weights and data that do not belong together, another vocabulary.
func Open(ctx context.Context, o Options) (*Index, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	return nil, errors.New("search: not there yet")
}

// Close releases the network and the files.
func (x *Index) Close() error { return nil }

// Info describes an index.
type Info struct {
	Data, Split              string
	Checkpoints              []string // as they were found, for people
	Shortlist                string   // the same of the shortlist's checkpoint; "" without
	Images, Captions         int
	CaptionsPerImage, Scored int  // Scored: candidates that a text query scores with the last stage
	Pairs                    bool // some checkpoint scores pairs: a query takes longer, Outcomes much longer
}

// Info returns what was opened.
func (x *Index) Info() Info { return Info{} }

// Image describes image i of the split, 0 ≤ i < Info.Images.
type Image struct {
	Index    int      `json:"image"`
	ID       string   `json:"id"` // of the ids file; its number where there is none
	Captions []string `json:"captions"`
}

// Image returns the description of an image. It panics when i is out of range, like an index of a slice.
func (x *Index) Image(i int) Image { return Image{} }

// Caption returns caption c, 0 ≤ c < Info.Captions; it describes image c / Info.CaptionsPerImage.
func (x *Index) Caption(c int) string { return x.split.Caption(c) }

// FindImage returns the number of the image that an id of the ids file names, with or without the ending of its file name; where no id is equal, a
// whole number 0 ≤ n < Info.Images is the number itself. Unknown ids are errors that name near ones.
func (x *Index) FindImage(id string) (int, error) { return 0, errors.New("search: not there yet") }
