package pictures

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	_ "image/jpeg" // decoders
	_ "image/png"
	"io"

	_ "golang.org/x/image/webp" // a decoder

	"vsetrain/internal/files/regular"
)

// Limits of a picture.
const (
	MaxPixels  = 120_000_000
	maxBytes   = 256 << 20 // of the file
	maxDecoded = 800 << 20 // bytes that its decoder takes
	maxScans   = 100       // of a progressive JPEG, each of which passes over the whole picture
)

// formats are the names of the decoders that are used, as package image has them.
var formats = map[string]bool{"jpeg": true, "png": true, "webp": true, "gif": true}

// RGB is a picture of 8-bit red, green and blue, row by row.
type RGB struct {
	Width, Height int
	Pix           []byte // [Height, Width, 3]
}

func newRGB(width, height int) *RGB {
	return &RGB{Width: width, Height: height, Pix: make([]byte, 3*width*height)}
}

// Open reads a picture file.
func Open(ctx context.Context, path string) (*RGB, error) {
	b, err := regular.ReadFile(path, maxBytes, "a picture")
	if err != nil {
		return nil, err
	}
	p, err := Decode(ctx, b, maxDecoded)
	if err != nil {
		return nil, regular.Explain(fmt.Errorf("%s: %w", path, err), path, regular.Picture)
	}
	return p, nil
}

// reader hands an encoded picture to its decoder in small pieces and fails when ctx is done, the only way to stop a
// decoder. It has no other methods, which decoders would call instead of Read.
type reader struct {
	ctx  context.Context
	from *bytes.Reader
}

// Read reads up to 512 bytes: in a progressive JPEG these hold three scans, which take at most a second.
func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b[:min(len(b), 512)])
}

// Decode reads a picture whose decoder takes at most most bytes, and turns it upright by its EXIF orientation. It reads
// the first frame of an animation, and ignores transparency: a transparent pixel keeps its colour. When ctx ends,
// Decode returns soon; only a lossy WebP and the last pass of a progressive JPEG are finished.
func Decode(ctx context.Context, b []byte, most int64) (*RGB, error) {
	c, format, err := image.DecodeConfig(bytes.NewReader(b))
	switch {
	case err != nil || !formats[format]:
		return nil, fmt.Errorf("expected a JPEG, PNG, WebP or GIF: %w", cmp.Or(err, errors.New("found "+format)))
	case c.Width < 1 || c.Height < 1:
		return nil, fmt.Errorf("a picture of %d x %d pixels", c.Width, c.Height)
	case c.Width > MaxPixels/c.Height:
		return nil, fmt.Errorf("a picture of %d x %d pixels; expected at most %d million, make it smaller", c.Width,
			c.Height, MaxPixels/1_000_000)
	}
	bytesOfPixel, scans := int64(depth(c.ColorModel)), 1
	if format == "jpeg" {
		var progressive bool
		if scans, progressive = jpegScans(b); progressive { // its coefficients are kept, four bytes each
			bytesOfPixel += 4 * bytesOfPixel
		}
	}
	if scans > maxScans {
		return nil, fmt.Errorf("a JPEG of more than %d scans; save it again with fewer", maxScans)
	}
	// The picture of the decoder, and the three bytes of a pixel that it is turned into.
	if all := int64(c.Width) * int64(c.Height) * (bytesOfPixel + 3); all > most {
		return nil, fmt.Errorf("a picture of %d x %d pixels whose decoder takes %d MB; expected at most %d, make it "+
			"smaller", c.Width, c.Height, all>>20, most>>20)
	}
	var img image.Image
	at, file := image.Rect(0, 0, c.Width, c.Height), b
	if format == "webp" {
		frame, place, err := firstFrame(b)
		if err != nil {
			return nil, fmt.Errorf("broken webp: %w", err)
		}
		if frame != nil {
			at, file = place, frame
		}
	}
	from := reader{ctx, bytes.NewReader(file)}
	if format == "gif" {
		img, err = gif.Decode(from) // the first frame
	} else {
		img, _, err = image.Decode(from)
	}
	if gone := ctx.Err(); gone != nil {
		return nil, gone
	}
	if err == io.ErrUnexpectedEOF {
		err = errors.New("the file ends too early")
	}
	if err != nil {
		return nil, fmt.Errorf("broken %s: %w", format, err)
	}
	rules := rules{jpegToRGB, jpegRows}
	if format == "webp" {
		rules.convert, rules.rows = videoToRGB, webpRows
	}
	p, err := toRGB(ctx, img, at.Dx(), at.Dy(), rules)
	if err != nil {
		return nil, err
	}
	return p.on(c.Width, c.Height, at.Min).turned(orientation(b)), nil
}

// depth returns how many bytes a decoded pixel takes at most.
func depth(m color.Model) int {
	switch m {
	case color.GrayModel:
		return 1
	case color.Gray16Model:
		return 2
	case color.YCbCrModel:
		return 3
	case color.RGBA64Model, color.NRGBA64Model:
		return 8
	}
	if _, ok := m.(color.Palette); ok {
		return 1
	}
	return 4
}

// jpegScans counts the scans of a JPEG, up to one more than maxScans, and reports whether it is progressive.
func jpegScans(b []byte) (scans int, progressive bool) {
	const scan, firstProgressive, stuffed = 0xda, 0xc2, 0
	for i := 0; i+1 < len(b) && scans <= maxScans; i++ {
		if b[i] != 0xff || b[i+1] == stuffed {
			continue
		}
		switch b[i+1] {
		case scan:
			scans++
		case firstProgressive:
			progressive = true
		default:
			continue
		}
		i++
	}
	return scans, progressive
}

// rules are how a format converts luma and chroma.
type rules struct {
	convert func(y, cb, cr byte) (r, g, b byte)
	rows    func(dst []byte, p *plane, width, height, across, down int) // see smoothed
}

// videoToRGB converts the colours of a lossy WebP, whose luma is 16 to 235 (webmproject/libwebp, src/dsp/yuv.h). The
// values of a JPEG use all of 0 to 255.
func videoToRGB(y, cb, cr byte) (r, g, b byte) {
	luma := int(y) * 19077 >> 8
	return clip((luma + int(cr)*26149>>8 - 14234) >> 6),
		clip((luma - int(cb)*6419>>8 - int(cr)*13320>>8 + 8708) >> 6),
		clip((luma + int(cb)*33050>>8 - 17685) >> 6)
}

// toRGB converts an image to a picture of the given size. Around a smaller first frame of a GIF the picture is black.
func toRGB(ctx context.Context, img image.Image, width, height int, use rules) (*RGB, error) {
	p, r := newRGB(width, height), img.Bounds()
	r = r.Intersect(image.Rect(0, 0, width, height))
	var pixel func(x, y int) (red, green, blue byte)
	switch m := img.(type) {
	case *image.YCbCr:
		pixel = use.pixels(m)
	case *image.NYCbCrA:
		pixel = use.pixels(&m.YCbCr)
	case *image.NRGBA:
		pixel = func(x, y int) (byte, byte, byte) { s := m.Pix[m.PixOffset(x, y):]; return s[0], s[1], s[2] }
	case *image.RGBA: // opaque, or the decoder would not have chosen it
		pixel = func(x, y int) (byte, byte, byte) { s := m.Pix[m.PixOffset(x, y):]; return s[0], s[1], s[2] }
	case *image.Gray:
		pixel = func(x, y int) (byte, byte, byte) { v := m.Pix[m.PixOffset(x, y)]; return v, v, v }
	default:
		pixel = func(x, y int) (byte, byte, byte) {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			return c.R, c.G, c.B
		}
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row := p.Pix[3*(y*width+r.Min.X):]
		for x := r.Min.X; x < r.Max.X; x++ {
			row[0], row[1], row[2] = pixel(x, y)
			row = row[3:]
		}
	}
	return p, nil
}

// pixels returns the colours of the pixels of m.
func (u rules) pixels(m *image.YCbCr) func(x, y int) (r, g, b byte) {
	if c := smoothed(m, u.rows); c != nil {
		width := m.Rect.Dx()
		return func(x, y int) (byte, byte, byte) {
			at := y*width + x
			return u.convert(m.Y[m.YOffset(x, y)], c.cb[at], c.cr[at])
		}
	}
	return func(x, y int) (byte, byte, byte) {
		at := m.COffset(x, y)
		return u.convert(m.Y[m.YOffset(x, y)], m.Cb[at], m.Cr[at])
	}
}

// on returns a black picture of the given size with this one at a point.
func (p *RGB) on(width, height int, at image.Point) *RGB {
	if width == p.Width && height == p.Height {
		return p
	}
	all := newRGB(width, height)
	for y := range p.Height {
		copy(all.Pix[3*((at.Y+y)*width+at.X):], p.Pix[3*y*p.Width:][:3*p.Width])
	}
	return all
}

// turned returns the picture upright, given its EXIF orientation: 1 is upright, 2 to 8 are mirrored, turned or both.
func (p *RGB) turned(orientation int) *RGB {
	if orientation < 2 || orientation > 8 {
		return p
	}
	w, h := p.Width, p.Height
	out := newRGB(w, h)
	if orientation >= 5 {
		out.Width, out.Height = h, w
	}
	for y := range out.Height {
		for x := range out.Width {
			sx, sy := x, y
			if orientation >= 5 {
				sx, sy = y, x
			}
			switch orientation {
			case 2, 7, 3, 8: // from the right
				sx = w - 1 - sx
			}
			switch orientation {
			case 3, 4, 6, 7: // from the bottom
				sy = h - 1 - sy
			}
			copy(out.Pix[3*(y*out.Width+x):][:3], p.Pix[3*(sy*w+sx):][:3])
		}
	}
	return out
}
