package synth

import (
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"strings"
)

// Simple drawings of scenes show what the captions describe: bands of background, a box for a thing or vehicle, an
// ellipse for an animal, a head and a garment for a person.

var paint = []color.RGBA{ // of colours
	{240, 240, 240, 255}, {30, 30, 30, 255}, {200, 40, 40, 255}, {50, 80, 190, 255}, {130, 90, 50, 255},
	{50, 140, 60, 255},
	{230, 200, 60, 255}, {140, 140, 145, 255}, {235, 140, 40, 255}, {240, 160, 190, 255}, {130, 70, 160, 255},
	{225, 210, 175, 255},
}

var scenery = map[string]color.RGBA{
	"sky": {175, 210, 240, 255}, "building": {170, 150, 140, 255}, "window": {190, 215, 225, 255},
	"sign":     {210, 190, 120, 255},
	"pavement": {150, 150, 150, 255}, "tree": {80, 125, 75, 255}, "grass": {125, 175, 90, 255}, "path": {190, 170, 135,
		255},
	"wave": {80, 140, 180, 255}, "sand": {225, 205, 155, 255}, "rock": {130, 125, 120, 255}, "bush": {95, 140, 80, 255},
	"fence": {165, 135, 100, 255}, "wall": {215, 205, 190, 255}, "curtain": {170, 90, 90, 255}, "floor": {175, 140, 105,
		255},
	"shelf": {155, 120, 90, 255}, "lamp": {235, 225, 180, 255}, "snow": {245, 248, 250, 255},
}

// ellipse is the opaque disc inscribed in a rectangle, as a mask.
type ellipse struct{ r image.Rectangle }

func (e ellipse) ColorModel() color.Model { return color.AlphaModel }
func (e ellipse) Bounds() image.Rectangle { return e.r }
func (e ellipse) At(x, y int) color.Color {
	dx := (2*float64(x-e.r.Min.X) + 1 - float64(e.r.Dx())) / float64(e.r.Dx())
	dy := (2*float64(y-e.r.Min.Y) + 1 - float64(e.r.Dy())) / float64(e.r.Dy())
	if dx*dx+dy*dy <= 1 {
		return color.Alpha{255}
	}
	return color.Alpha{}
}

// rect returns the pixels of a rectangle given by its centre and extent as shares of the picture.
func (sc *scene) rect(x, y, w, h float64) image.Rectangle {
	W, H := float64(sc.width), float64(sc.height)
	return image.Rect(int((x-w/2)*W), int((y-h/2)*H), int((x+w/2)*W), int((y+h/2)*H))
}

// paint draws the scene.
func (sc *scene) paint() *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, sc.width, sc.height))
	fill := func(r image.Rectangle, c color.Color) {
		draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
	}
	disc := func(r image.Rectangle, c color.Color) {
		if !r.Empty() {
			draw.DrawMask(img, r, image.NewUniform(c), image.Point{}, ellipse{r}, r.Min, draw.Over)
		}
	}
	parts := strings.Fields(places[sc.place].parts)
	for i, name := range parts {
		fill(image.Rect(0, i*sc.height/len(parts), sc.width, (i+1)*sc.height/len(parts)), scenery[name])
	}
	skin := color.RGBA{225, 180, 150, 255}
	for i := sc.n - 1; i >= 0; i-- {
		o := &sc.objects[i]
		for k := range o.count {
			x, y := o.instance(k)
			switch o.kind() {
			case person:
				cloth := paint[o.garmentColour]
				fill(sc.rect(x, y+0.28*o.h, 0.5*o.w, 0.44*o.h), color.RGBA{cloth.R / 2, cloth.G / 2, cloth.B / 2, 255})
				fill(sc.rect(x, y-0.12*o.h, 0.8*o.w, 0.4*o.h), cloth)
				disc(sc.rect(x, y-0.4*o.h, 0.45*o.w, 0.2*o.h), skin)
			case animal:
				disc(sc.rect(x, y, o.w, 0.7*o.h), paint[o.colour])
				disc(sc.rect(x+0.42*o.w, y-0.3*o.h, 0.35*o.w, 0.4*o.h), paint[o.colour])
			case vehicle:
				fill(sc.rect(x, y, o.w, 0.6*o.h), paint[o.colour])
				disc(sc.rect(x-0.3*o.w, y+0.32*o.h, 0.22*o.w, 0.3*o.h), color.Black)
				disc(sc.rect(x+0.3*o.w, y+0.32*o.h, 0.22*o.w, 0.3*o.h), color.Black)
			default:
				fill(sc.rect(x, y, o.w, o.h), paint[o.colour])
			}
		}
	}
	return img
}

// save writes the drawing as PNG.
func (sc *scene) save(path string) error {
	f, err := createBuffered(path)
	if err != nil {
		return err
	}
	err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(f, sc.paint())
	return errors.Join(err, f.finish())
}
