package report

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"maps"
	"slices"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/analysis"
)

// Pictures finds the pictures of image ids in a folder and records which are missing. A nil *Pictures has no pictures.
type Pictures struct {
	dir     string
	gallery *pictures.Gallery
	missing map[string]bool
	found   int
}

// OpenPictures opens a folder of pictures.
func OpenPictures(dir string) (*Pictures, error) {
	g, err := pictures.OpenGallery(dir)
	return &Pictures{dir: dir, gallery: g, missing: map[string]bool{}}, err
}

// open decodes the picture of an id; it is nil if there is none.
func (p *Pictures) open(id string) (*pictures.RGB, error) {
	if p == nil {
		return nil, nil
	}
	path, err := p.gallery.Path(id)
	if err != nil {
		p.missing[id] = true
		return nil, nil
	}
	p.found++
	return pictures.Open(context.Background(), path)
}

// Missing reports the pictures that were not found: an error if none was found, otherwise a warning; "" if all were
// found.
func (p *Pictures) Missing() (warning string, err error) {
	if p == nil || len(p.missing) == 0 {
		return "", nil
	}
	ids := slices.Sorted(maps.Keys(p.missing))
	if p.found == 0 {
		return "", fmt.Errorf("%s has none of the %d pictures that are shown; expected files named as the image ids, "+
			"such as %q (.jpg or .png)", p.dir, len(ids), ids[0])
	}
	return fmt.Sprintf("%s lacks %d of the pictures, among them %q; the page shows their ids", p.dir, len(ids), ids[0]),
		nil
}

// card shows the picture of an id, at most side pixels wide and high, or the id if there is no picture.
func (p *Pictures) card(id string, side int, lines ...string) (c Card, picture *pictures.RGB, err error) {
	c = Card{ID: id, Lines: lines}
	if picture, err = p.open(id); picture == nil {
		return c, nil, err
	}
	w, h := fit(picture.Width, picture.Height, side)
	var b bytes.Buffer
	err = jpeg.Encode(&b, scale(picture, min(w, picture.Width), min(h, picture.Height)), &jpeg.Options{Quality: 88})
	c.Data = dataURI("image/jpeg", b.Bytes())
	return c, picture, err
}

// drawn returns a card for an image that is also written to a file.
func drawn(id, file string, img image.Image, lines ...string) (Card, error) {
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return Card{ID: id, Data: dataURI("image/png", b.Bytes()), PNG: b.Bytes(), File: file, Lines: lines}, err
}

// fit returns the largest size with the aspect ratio of w x h and no side above most.
func fit(w, h, most int) (int, int) {
	w, h = max(1, w), max(1, h)
	if w >= h {
		return most, (h*most + w - 1) / w
	}
	return (w*most + h - 1) / h, most
}

// scale resizes a picture.
func scale(p *pictures.RGB, w, h int) *image.RGBA {
	p = p.Resize(w, h, pictures.Bilinear)
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(out.Pix[4*i:], p.Pix[3*i:3*i+3])
		out.Pix[4*i+3] = 255
	}
	return out
}

// heatSide is the longer side of a heat map in pixels.
const heatSide = 288

// heat draws the attention over a picture, or without a picture (nil) only the map, in the shape of the image.
func heat(a *analysis.Attention, picture *pictures.RGB) image.Image {
	w, h := fit(int(a.Width), int(a.Height), heatSide)
	out, share := image.NewRGBA(image.Rect(0, 0, w, h)), 1.0
	if picture != nil {
		out, share = scale(picture, w, h), 0.55
	}
	for i, v := range a.Map(w, h) {
		c, x, y := chart.Between(heatStops, v), i%w, i/w
		p := out.RGBAAt(x, y)
		mix := func(a, b uint8) uint8 { return uint8(share*float64(a) + (1-share)*float64(b) + 0.5) }
		out.SetRGBA(x, y, color.RGBA{mix(c.R, p.R), mix(c.G, p.G), mix(c.B, p.B), 255})
	}
	return out
}

// heatStops go from black over violet and orange to light yellow, with evenly increasing lightness.
var heatStops = []color.RGBA{{0, 0, 4, 255}, {87, 16, 110, 255}, {188, 55, 84, 255}, {249, 142, 9, 255},
	{252, 255, 164, 255}}
