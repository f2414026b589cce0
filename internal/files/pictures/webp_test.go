package pictures

import (
	"bytes"
	"encoding/binary"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/lab/try"
)

// webpChunk is one chunk of a WebP.
func webpChunk(name string, data []byte) []byte {
	b := append([]byte(name), binary.LittleEndian.AppendUint32(nil, uint32(len(data)))...)
	return append(append(b, data...), make([]byte, len(data)%2)...)
}

func put24(b []byte, v int) { b[0], b[1], b[2] = byte(v), byte(v>>8), byte(v>>16) }

// animation draws a WebP whose first frame is a still one at a place of a canvas, with other chunks and frames around.
func animation(draw *rand.Rand, still []byte, size image.Point) (b []byte, canvas image.Point, at image.Point) {
	at = image.Pt(2*draw.IntN(6), 2*draw.IntN(6))
	canvas = at.Add(size).Add(image.Pt(draw.IntN(5), draw.IntN(5)))
	head := make([]byte, 10)
	head[0] = webpAnimated | byte(draw.IntN(2)*webpAlpha)
	put24(head[4:], canvas.X-1)
	put24(head[7:], canvas.Y-1)
	list := [][]byte{webpChunk("VP8X", head)}
	extra := func() {
		for range draw.IntN(3) {
			list = append(list, webpChunk([]string{"ICCP", "ANIM", "abcd"}[draw.IntN(3)], make([]byte, draw.IntN(9))))
		}
	}
	extra()
	for i := range 1 + draw.IntN(3) {
		frame := make([]byte, frameHead)
		if i == 0 {
			put24(frame, at.X/2)
			put24(frame[3:], at.Y/2)
		}
		put24(frame[6:], size.X-1)
		put24(frame[9:], size.Y-1)
		frame[15] = byte(draw.IntN(4))
		list = append(list, webpChunk("ANMF", append(frame, still[12:]...)))
		extra()
	}
	body := bytes.Join(list, nil)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(4+len(body))),
		append([]byte("WEBP"), body...)...), canvas, at
}

// The first frame of an animation is the still picture of the same data, at its place on black; a file that is cut off
// anywhere in front of the second frame is an error and no panic.
func TestAnimatedWebP(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	dir := try.Fixtures(t, "pictures")
	for i := range 60 {
		still := try.Get(os.ReadFile(filepath.Join(dir, []string{"even.webp", "odd.webp"}[i%2])))(t)
		want := try.Get(Decode(t.Context(), still, maxDecoded))(t)
		b, canvas, at := animation(draw, still, image.Pt(want.Width, want.Height))
		got := try.Get(Decode(t.Context(), b, maxDecoded))(t)
		if full := want.on(canvas.X, canvas.Y, at); got.Width != canvas.X || got.Height != canvas.Y ||
			!bytes.Equal(got.Pix, full.Pix) {
			t.Fatalf("animation %d: not the still picture at %v of %v", i, at, canvas)
		}
		first := bytes.Index(b, []byte("ANMF"))
		for range 10 {
			n := draw.IntN(first + len(still))
			if _, err := Decode(t.Context(), b[:n], maxDecoded); err == nil {
				t.Errorf("animation %d cut off after %d of %d bytes is no error", i, n, len(b))
			}
			bad := bytes.Clone(b)
			bad[12+draw.IntN(first+16)] ^= 1 << draw.IntN(8)
			Decode(t.Context(), bad, maxDecoded) // whatever comes
		}
	}
	still := try.Get(os.ReadFile(filepath.Join(dir, "even.webp")))(t)
	b, _, _ := animation(draw, still, image.Pt(40, 40)) // another size than its data has, and outside of the canvas
	try.Refuses(Decode(t.Context(), b, maxDecoded))(t)
	put24(b[12+8+4:], 0)
	try.Refuses(Decode(t.Context(), b, maxDecoded))(t, "outside of")
}
