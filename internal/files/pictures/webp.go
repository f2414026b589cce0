package pictures

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
)

// Flags of a WebP's first chunk, VP8X, and sizes of chunks.
const (
	webpAnimated, webpAlpha = 0x02, 0x10
	chunkHead, frameHead    = 8, 16
)

// firstFrame returns the first frame of an animated WebP as a WebP of its own, and where it is in the picture, which is
// black around it as in Pillow; nil if b is not animated (developers.google.com/speed/webp/docs/riff_container).
func firstFrame(b []byte) (frame []byte, at image.Rectangle, err error) {
	chunk, name, rest := nextChunk(b[min(12, len(b)):]) // after RIFF, a size and WEBP
	if name != "VP8X" || len(chunk) < 10 || chunk[0]&webpAnimated == 0 {
		return nil, at, nil
	}
	u24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
	canvas := image.Rect(0, 0, u24(chunk[4:])+1, u24(chunk[7:])+1)
	for name != "ANMF" {
		if chunk, name, rest = nextChunk(rest); name == "" {
			return nil, at, errors.New("the file ends before the first picture of its animation")
		}
	}
	if len(chunk) < frameHead+chunkHead {
		return nil, at, errors.New("the first picture of the animation is empty")
	}
	corner := image.Pt(2*u24(chunk), 2*u24(chunk[3:]))
	at = image.Rectangle{corner, corner.Add(image.Pt(u24(chunk[6:])+1, u24(chunk[9:])+1))}
	if !at.In(canvas) {
		return nil, at, fmt.Errorf("the first picture of the animation is at %v, outside of %v", at, canvas)
	}
	head := make([]byte, 10)
	copy(head[4:], chunk[6:12]) // width and height
	data := chunk[frameHead:]
	if bytes.HasPrefix(data, []byte("ALPH")) {
		head[0] = webpAlpha
	}
	size := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	frame = bytes.Join([][]byte{[]byte("RIFF"), size(len("WEBP") + chunkHead + len(head) + len(data)),
		[]byte("WEBPVP8X"), size(len(head)), head, data}, nil)
	return frame, at, nil
}

// nextChunk cuts off the first chunk, which is padded to an even size. An empty name is the end, also of a file that is
// truncated within a chunk.
func nextChunk(b []byte) (data []byte, name string, rest []byte) {
	if len(b) < chunkHead {
		return nil, "", nil
	}
	n := uint64(binary.LittleEndian.Uint32(b[4:]))
	if n > uint64(len(b)-chunkHead) {
		return nil, "", nil
	}
	name, data, rest = string(b[:4]), b[chunkHead:][:n], b[chunkHead+n:]
	return data, name, rest[min(n%2, uint64(len(rest))):]
}
