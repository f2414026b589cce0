package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/image/draw"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/run/study"
)

// Pictures finds the pictures of image ids in a folder and remembers which are missing. A nil one has none.
type Pictures struct {
	Dir     string
	missing map[string]bool
	found   int
}

// maxPixels bounds what is decoded; a picture of a data set has far fewer.
const maxPixels = 1 << 26

// Find returns the file of an id: the id itself, or with one of the usual endings. It never leaves the folder.
func (p *Pictures) Find(id string) (string, bool) {
	if p == nil || p.Dir == "" {
		return "", false
	}
	if filepath.IsLocal(id) {
		for _, ext := range []string{"", ".jpg", ".jpeg", ".png"} {
			path := filepath.Join(p.Dir, id+ext)
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
				p.found++
				return path, true
			}
		}
	}
	if p.missing == nil {
		p.missing = map[string]bool{}
	}
	p.missing[id] = true
	return "", false
}

// Missing says which pictures were not found: an error where none of several was there at all, else a warning for
// people, "" where all were there.
func (p *Pictures) Missing() (warning string, err error) {
	if p == nil || len(p.missing) == 0 {
		return "", nil
	}
	ids := slices.Sorted(maps.Keys(p.missing))
	if p.found == 0 {
		return "", fmt.Errorf("%s has none of the %d pictures that are shown; expected files named as the image ids, "+
			"such as %q (.jpg or .png)", p.Dir, len(ids), ids[0])
	}
	return fmt.Sprintf("%s lacks %d of the pictures, among them %q; the page shows their ids", p.Dir, len(ids), ids[0]),
		nil
}

// open decodes a picture.
func openPicture(path string) (image.Image, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, _, err := image.DecodeConfig(f)
	if err == nil && (c.Width < 1 || c.Height < 1 || c.Width > maxPixels/c.Height) {
		err = fmt.Errorf("%d x %d pixels; expected at most %d in all", c.Width, c.Height, maxPixels)
	}
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	var img image.Image
	if err == nil {
		img, _, err = image.Decode(f)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read the picture: %w", path, err)
	}
	return img, nil
}

// Embed returns the picture of an id as a data URI no larger than max pixels a side, "" if there is none.
func (p *Pictures) Embed(id string, max int) (string, error) {
	path, ok := p.Find(id)
	if !ok {
		return "", nil
	}
	img, err := openPicture(path)
	if err != nil {
		return "", err
	}
	w, h := fit(img.Bounds().Dx(), img.Bounds().Dy(), max)
	if w < img.Bounds().Dx() {
		img = scale(img, w, h)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 88}); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// fit is the largest size of the shape w x h with no side above max.
func fit(w, h, max int) (int, int) {
	if w >= h {
		return max, roundUp(h*max, w)
	}
	return roundUp(w*max, h), max
}

func roundUp(a, b int) int { return (a + b - 1) / b }

// scale resizes a picture.
func scale(img image.Image, w, h int) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.BiLinear.Scale(out, out.Rect, img, img.Bounds(), draw.Src, nil)
	return out
}

// heatSide is the longer side of a heat map in pixels.
const heatSide = 288

// heat draws the attention over the picture at path; without one ("") the map by itself, in the shape of the image.
func heat(a *study.Attention, path string) (image.Image, error) {
	w, h := fit(max(1, int(a.Width)), max(1, int(a.Height)), heatSide)
	out, share := image.NewRGBA(image.Rect(0, 0, w, h)), 1.0
	if path != "" {
		img, err := openPicture(path)
		if err != nil {
			return nil, err
		}
		out, share = scale(img, w, h), 0.55
	}
	for i, v := range a.Map(w, h) {
		c, x, y := chart.Between(heatStops, v), i%w, i/w
		p := out.RGBAAt(x, y)
		mix := func(a, b uint8) uint8 { return uint8(share*float64(a) + (1-share)*float64(b) + 0.5) }
		out.SetRGBA(x, y, color.RGBA{mix(c.R, p.R), mix(c.G, p.G), mix(c.B, p.B), 255})
	}
	return out, nil
}

// heatStops run from black over violet and orange to light yellow, evenly brighter.
var heatStops = []color.RGBA{{0, 0, 4, 255}, {87, 16, 110, 255}, {188, 55, 84, 255}, {249, 142, 9, 255},
	{252, 255, 164, 255}}

func encodePNG(img image.Image) ([]byte, error) {
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}
