package pictures

import (
	"bytes"
	"encoding/binary"
)

// orientation returns the EXIF orientation of a JPEG, PNG or WebP, 1 if it has none.
func orientation(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xd8}):
		return orientationJPEG(b[2:])
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return orientationPNG(b[8:])
	case bytes.HasPrefix(b, []byte("RIFF")) && len(b) > 12:
		for data, name, rest := nextChunk(b[12:]); name != ""; data, name, rest = nextChunk(rest) {
			if name == "EXIF" {
				return orientationTIFF(data)
			}
		}
	}
	return 1
}

// orientationJPEG looks through the segments before the picture for APP1 with EXIF.
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
		if kind == 0xe1 && bytes.HasPrefix(b[4:2+size], exifHead) {
			return orientationTIFF(b[4 : 2+size])
		}
		b = b[2+size:]
	}
	return 1
}

// orientationPNG looks through the chunks of a PNG: size, name, data, checksum.
func orientationPNG(b []byte) int {
	for len(b) >= 8 {
		end := 8 + uint64(binary.BigEndian.Uint32(b))
		if end > uint64(len(b)) {
			return 1
		}
		if string(b[4:8]) == "eXIf" {
			return orientationTIFF(b[8:end])
		}
		b = b[min(end+4, uint64(len(b))):]
	}
	return 1
}

// exifHead may precede a directory.
var exifHead = []byte("Exif\x00\x00")

// orientationTIFF reads tag 0x0112 of the first directory.
func orientationTIFF(b []byte) int {
	if b = bytes.TrimPrefix(b, exifHead); len(b) < 8 {
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
			return int(order.Uint16(b[8:]))
		}
	}
	return 1
}
