package pictures

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// gradient is a picture with something in every pixel and channel.
func gradient(width, height int) *RGB {
	p := newRGB(width, height)
	for y := range height {
		for x := range width {
			copy(p.Pix[3*(y*width+x):], []byte{byte(x*37 + y*11), byte(x*x*5 + y*29), byte(x * y * 7)})
		}
	}
	return p
}

// What Pillow 13.0 gives for np.stack([x*37 + y*11, x*x*5 + y*29, x*y*7], -1) % 256 of 11 x 7 pixels: the first pixel,
// the sum of all values, the beginning of their SHA-256.
func TestResizeAsPillow(t *testing.T) {
	for _, c := range []struct {
		filter        Filter
		width, height int
		want          string
	}{
		{Bilinear, 5, 3, "[39 31 5] 4736 21c11191e638d424"},
		{Bilinear, 20, 9, "[0 0 0] 56903 aedbc46e5959c505"},
		{Bilinear, 11, 4, "[6 15 0] 13867 e9d5c47af316b7ac"},
		{Bilinear, 4, 7, "[42 11 0] 8897 ddad998d16d4397f"},
		{Bilinear, 1, 1, "[122 125 85] 332 d59aaa1275d93fad"},
		{Bicubic, 5, 3, "[32 24 3] 4743 c7c23ba76cdaec43"},
		{Bicubic, 20, 9, "[0 0 0] 56814 041e3b626bbbd622"},
		{Bicubic, 11, 4, "[4 12 0] 13863 2abd295409d77ba4"},
		{Bicubic, 4, 7, "[35 6 0] 8866 87e084b424296030"},
		{Bicubic, 1, 1, "[120 124 84] 328 a2b9ddb242dc7754"},
	} {
		p := gradient(11, 7).Resize(c.width, c.height, c.filter)
		sum, hash := 0, sha256.Sum256(p.Pix)
		for _, v := range p.Pix {
			sum += int(v)
		}
		if got := fmt.Sprint(p.Pix[:3], sum, " "+hex.EncodeToString(hash[:8])); got != c.want || p.Width != c.width ||
			p.Height != c.height {
			t.Errorf("%d x %d, support %v: %s, want %s", c.width, c.height, c.filter.support, got, c.want)
		}
	}
	if c := gradient(11, 7).Crop(2, 3, 4, 2); c.Pix[0] != 2*37+3*11 || c.Pix[3*(4+1)] != (3*37+4*11)%256 {
		t.Errorf("crop %v", c.Pix)
	}
}

// six is a picture of the grey values 1 2 3, 4 5 6.
func six() *image.Gray {
	m := image.NewGray(image.Rect(0, 0, 3, 2))
	copy(m.Pix, []byte{1, 2, 3, 4, 5, 6})
	return m
}

// greys are the rows of a picture.
func greys(p *RGB) (s string) {
	for y := range p.Height {
		for x := range p.Width {
			s += fmt.Sprint(p.Pix[3*(y*p.Width+x)])
		}
		s += "/"
	}
	return strings.TrimSuffix(s, "/")
}

// tiff is an EXIF directory with an orientation.
func tiff(orientation byte) []byte {
	return []byte{'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0}
}

// chunk is a chunk of a PNG.
func chunk(name string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, name...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// The pictures are the same as from PIL.ImageOps.exif_transpose.
func TestOrientation(t *testing.T) {
	var b bytes.Buffer
	try.Do(t, png.Encode(&b, six()))
	const head = 8 + 12 + 13 // signature and IHDR
	for i, want := range []string{"123/456", "321/654", "654/321", "456/123", "14/25/36", "41/52/63", "63/52/41",
		"36/25/14"} {
		turned := bytes.Join([][]byte{b.Bytes()[:head], chunk("eXIf", tiff(byte(i+1))), b.Bytes()[head:]}, nil)
		p := try.Get(Decode(t.Context(), turned, maxDecoded))(t)
		if got := greys(p); got != want {
			t.Errorf("orientation %d: %s, want %s", i+1, got, want)
		}
	}
	// a WebP that Pillow wrote, of orientation 8
	webp, err := base64.StdEncoding.DecodeString("UklGRloAAABXRUJQVlA4WAoAAAAIAAAAAgAAAQAAVlA4TBkAAAAvAkAAAC+QmfMfAd" +
		"S0bcCGOv9yakT/Y3oBAEVYSUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAgAAAAAAAA=")
	try.Do(t, err)
	p := try.Get(Decode(t.Context(), webp, maxDecoded))(t)
	if greys(p) != "36/25/14" {
		t.Errorf("WebP: %s", greys(p))
	}
	b.Reset()
	try.Do(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 16, 8)), nil))
	exif := append([]byte("Exif\x00\x00"), tiff(6)...)
	app1 := append([]byte{0xff, 0xe1, 0, byte(2 + len(exif))}, exif...)
	p = try.Get(Decode(t.Context(), bytes.Join([][]byte{b.Bytes()[:2], app1, b.Bytes()[2:]}, nil), maxDecoded))(t)
	if p.Width != 8 || p.Height != 16 {
		t.Errorf("JPEG: %d x %d", p.Width, p.Height)
	}
}

// Every kind of image in memory gives its colours; transparent pixels keep theirs, a smaller first frame its place.
func TestDecodeColours(t *testing.T) {
	c := color.NRGBA{200, 100, 50, 0}
	transparent := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	transparent.SetNRGBA(1, 0, c)
	wide := image.NewNRGBA64(image.Rect(0, 0, 2, 1))
	wide.SetNRGBA64(1, 0, color.NRGBA64{200 << 8, 100 << 8, 50 << 8, 0xffff})
	paletted := image.NewPaletted(image.Rect(1, 0, 2, 1), color.Palette{color.Black, color.NRGBA{200, 100, 50, 255}})
	paletted.SetColorIndex(1, 0, 1)
	for i, m := range []image.Image{transparent, wide, paletted} {
		var b bytes.Buffer
		if i < 2 {
			try.Do(t, png.Encode(&b, m))
		} else {
			try.Do(t, gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{paletted}, Delay: []int{0},
				Config: image.Config{Width: 2, Height: 1, ColorModel: paletted.Palette}}))
		}
		p := try.Get(Decode(t.Context(), b.Bytes(), maxDecoded))(t)
		if !bytes.Equal(p.Pix, []byte{0, 0, 0, 200, 100, 50}) {
			t.Errorf("%T: %v", m, p.Pix)
		}
	}
}

// A small file that says it is a huge picture is refused before memory is taken for it.
func TestDecodeErrors(t *testing.T) {
	var b bytes.Buffer
	try.Do(t, png.Encode(&b, six()))
	bomb := bytes.Clone(b.Bytes())
	binary.BigEndian.PutUint32(bomb[16:], 50_000)
	binary.BigEndian.PutUint32(bomb[20:], 40_000)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"a picture of 50000 x 40000 pixels; expected at most 120 million, make it smaller", bomb},
		{"broken png: png: invalid format: not enough pixel data", b.Bytes()[:50]},
		{"expected a JPEG, PNG, WebP or GIF: image: unknown format", []byte("a text")},
		{"expected a JPEG, PNG, WebP or GIF: image: unknown format", nil},
	} {
		try.Refuses(Decode(t.Context(), c.data, maxDecoded))(t, c.want)
	}
	path := filepath.Join(t.TempDir(), "a.png")
	try.Do(t, os.WriteFile(path, []byte("x"), 0o644))
	try.Refuses(Open(t.Context(), path))(t, path+": expected a JPEG")
}

// Whatever the bytes are, nothing panics, and a picture has the pixels it says.
func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	try.Do(f, png.Encode(&b, six()))
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	try.Do(f, jpeg.Encode(&b, six(), nil))
	f.Add(b.Bytes())
	f.Add(append([]byte("RIFF\x00\x00\x00\x00WEBPEXIF\x1a\x00\x00\x00"), tiff(3)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		orientation(b)
		if c, _, err := image.DecodeConfig(bytes.NewReader(b)); err != nil || c.Width > 1<<20/max(1, c.Height) {
			return
		}
		if p, err := Decode(t.Context(), b, maxDecoded); err == nil && len(p.Pix) != 3*p.Width*p.Height {
			t.Errorf("%d x %d pixels of %d bytes", p.Width, p.Height, len(p.Pix))
		}
	})
}

// A small file may not take much memory or time.
func TestBombs(t *testing.T) {
	header := func(width, height uint32, depth, kind byte) []byte { // of a PNG
		b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"), make([]byte, 13)...)
		binary.BigEndian.PutUint32(b[16:], width)
		binary.BigEndian.PutUint32(b[20:], height)
		b[24], b[25] = depth, kind
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
	}
	const rgba = 6
	try.Refuses(Decode(t.Context(), header(10_900, 11_000, 16, rgba), maxDecoded))(t,
		"whose decoder takes 1257 MB; expected at most 800")
	try.Refuses(Decode(t.Context(), header(4000, 3000, 8, rgba), 40<<20))(t,
		"whose decoder takes 80 MB; expected at most 40")
	var b bytes.Buffer
	try.Do(t, jpeg.Encode(&b, image.NewRGBA(image.Rect(0, 0, 8, 8)), nil))
	if n, progressive := jpegScans(b.Bytes()); n != 1 || progressive {
		t.Errorf("%d scans, progressive %v", n, progressive)
	}
	scans := append(b.Bytes()[:b.Len()-2:b.Len()-2], bytes.Repeat([]byte{0xff, 0xda, 1, 2}, maxScans)...)
	try.Refuses(Decode(t.Context(), scans, maxDecoded))(t, "more than 100 scans")
	progressive := bytes.Replace(b.Bytes(), []byte{0xff, 0xc0}, []byte{0xff, 0xc2}, 1)
	try.Refuses(Decode(t.Context(), progressive, 8*8*18-1))(t, "whose decoder takes")
}

// leaving is a context that ends after its error was asked for that many times.
type leaving struct {
	context.Context
	left int
}

func (c *leaving) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A decode that has begun ends with its context: while the file is read, and while the picture is turned into RGB.
func TestDecodeCancelled(t *testing.T) {
	noise := gradient(300, 200)
	m := image.NewPaletted(image.Rect(0, 0, noise.Width, noise.Height), palette.Plan9)
	copy(m.Pix, noise.Pix)
	for name, encode := range map[string]func(io.Writer) error{
		"png":  func(w io.Writer) error { return png.Encode(w, m) },
		"jpeg": func(w io.Writer) error { return jpeg.Encode(w, m, nil) },
		"gif":  func(w io.Writer) error { return gif.Encode(w, m, nil) },
	} {
		var b bytes.Buffer
		try.Do(t, encode(&b))
		asked := &leaving{t.Context(), 1 << 30}
		try.Get(Decode(asked, b.Bytes(), maxDecoded))(t)
		whole := 1<<30 - asked.left
		if reads := whole - noise.Height; reads < b.Len()/512 {
			t.Errorf("%s: the context is looked at %d times while %d bytes are read", name, reads, b.Len())
		}
		for _, after := range []int{0, 3, whole - noise.Height/2} {
			ctx := &leaving{t.Context(), after}
			if _, err := Decode(ctx, b.Bytes(), maxDecoded); err != context.Canceled || ctx.left < -8 {
				t.Errorf("%s that ends at %d of %d: %v, looked at %d times more", name, after, whole, err, -ctx.left)
			}
		}
	}
}
