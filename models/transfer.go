package models

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/safetensors"
)

// Values are the source of a checkpoint: a device, or a Copy of what it held.
type Values interface {
	Float64() bool
	DownloadFloats(dst []float32, src device.View)
	DownloadDoubles(dst []float64, src device.View)
	Sync() error
}

// littleEndian reports whether elements have the same bytes in memory as in files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

const downloadPiece = 1 << 18 // elements

// writeValues writes a view to a file in pieces, little endian and in the precision of from.
func writeValues(w io.Writer, from Values, v device.View) error {
	if from.Float64() {
		return writePieces(w, from.DownloadDoubles, v)
	}
	return writePieces(w, from.DownloadFloats, v)
}

func writePieces[T vec.Float](w io.Writer, download func([]T, device.View), v device.View) error {
	buf := make([]T, min(v.N, downloadPiece))
	for lo := 0; lo < v.N; lo += len(buf) {
		piece := buf[:min(len(buf), v.N-lo)]
		download(piece, v.Slice(lo, lo+len(piece)))
		out := unsafe.Slice((*byte)(unsafe.Pointer(&piece[0])), binary.Size(piece))
		if !littleEndian {
			out, _ = binary.Append(nil, binary.LittleEndian, piece)
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// float64s returns the elements of a float64 tensor, which must be finite.
func float64s(f *safetensors.File, t safetensors.Tensor) ([]float64, error) {
	x := make([]float64, t.Len())
	err := f.View(func() error {
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, checkFinite(x)
}

// checkFinite returns an error for the first value that is not finite.
func checkFinite[T vec.Float](x []T) error {
	if i := vec.NotFinite(x); i >= 0 {
		return fmt.Errorf("element %d is %v: expected finite numbers; use another checkpoint", i, x[i])
	}
	return nil
}
