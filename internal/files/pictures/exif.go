package pictures

import (
	"bytes"
	"encoding/binary"
)

// orientation returns the EXIF orientation of a JPEG, PNG or WebP, 1 where there is none or it makes no sense.
func orientation(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xd8}):
		return orientationJPEG(b[2:])
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return orientationChunks(b[8:], "eXIf", binary.BigEndian, true)
	case bytes.HasPrefix(b, []byte("RIFF")) && len(b) > 12:
		return orientationChunks(b[12:], "EXIF", binary.LittleEndian, false)
	}
	return 1
}

// orientationJPEG looks through the segments in front of the picture for APP1 with EXIF.
func orientationJPEG(b []byte) int {
	for len(b) >= 4 && b[0] == 0xff {
		kind, size := b[1], int(binary.BigEndian.Uint16(b[2:]))
		if kind == 0xff { // padding
			b = b[1:]
			continue
		}
		if kind == 0xda || size < 2 || 2+size > len(b) {
			return 1
		}
		if data, ok := bytes.CutPrefix(b[4:2+size], []byte("Exif\x00\x00")); kind == 0xe1 && ok {
			return orientationTIFF(data)
		}
		b = b[2+size:]
	}
	return 1
}

// orientationChunks looks through the chunks of a PNG (size, name, data, checksum) or WebP (name, size, data, padded to
// even).
func orientationChunks(b []byte, name string, order binary.ByteOrder, png bool) int {
	for len(b) >= 8 {
		found, size := b[:4], uint64(order.Uint32(b[4:]))
		end := 8 + size + size%2
		if png {
			found, size = b[4:8], uint64(order.Uint32(b))
			end = 12 + size
		}
		if 8+size > uint64(len(b)) {
			return 1
		}
		if string(found) == name {
			data, _ := bytes.CutPrefix(b[8:8+size], []byte("Exif\x00\x00"))
			return orientationTIFF(data)
		}
		if end > uint64(len(b)) {
			return 1
		}
		b = b[end:]
	}
	return 1
}

// orientationTIFF reads tag 0x0112 of the first directory.
func orientationTIFF(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'M' {
		order = binary.BigEndian
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 1
	}
	n := int(order.Uint16(b[at:]))
	for b = b[at+2:]; n > 0 && len(b) >= 12; n, b = n-1, b[12:] {
		if order.Uint16(b) == 0x0112 {
			if v := int(order.Uint16(b[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
	}
	return 1
}
