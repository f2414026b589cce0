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

// Values are what a checkpoint is written from: a device, or a Copy of what it held.
type Values interface {
	Float64() bool
	DownloadFloats(dst []float32, src device.View)
	DownloadDoubles(dst []float64, src device.View)
	Sync() error
}

// downloader writes values to a stream in pieces, little endian, in their own precision.
type downloader struct {
	from   Values
	narrow []float32
	wide   []float64
	bytes  []byte // of the elements; on a little-endian machine the same memory
}

// littleEndian reports whether elements lie in memory as in files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

const downloadPiece = 1 << 18 // elements

func newDownloader(from Values) *downloader {
	d := &downloader{from: from}
	var p unsafe.Pointer
	size := 4 * downloadPiece
	if from.Float64() {
		d.wide, size = make([]float64, downloadPiece), 8*downloadPiece
		p = unsafe.Pointer(&d.wide[0])
	} else {
		d.narrow = make([]float32, downloadPiece)
		p = unsafe.Pointer(&d.narrow[0])
	}
	if littleEndian {
		d.bytes = unsafe.Slice((*byte)(p), size)
	} else {
		d.bytes = make([]byte, size)
	}
	return d
}

func (d *downloader) write(w io.Writer, v device.View) error {
	for lo := 0; lo < v.N; lo += downloadPiece {
		n := min(downloadPiece, v.N-lo)
		part := v.Slice(lo, lo+n)
		var out []byte
		if d.wide != nil {
			d.from.DownloadDoubles(d.wide[:n], part)
			out = d.bytes[:8*n]
			for i := 0; !littleEndian && i < n; i++ {
				binary.LittleEndian.PutUint64(out[8*i:], math.Float64bits(d.wide[i]))
			}
		} else {
			d.from.DownloadFloats(d.narrow[:n], part)
			out = d.bytes[:4*n]
			for i := 0; !littleEndian && i < n; i++ {
				binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(d.narrow[i]))
			}
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// float64s returns the elements of a float64 tensor.
func float64s(f *safetensors.File, t safetensors.Tensor) ([]float64, error) {
	x := make([]float64, t.Len())
	return x, f.View(func() error {
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
		}
		return nil
	})
}

// checkFinite returns an error for the first value that is not a finite number.
func checkFinite[T vec.Float](x []T) error {
	if i := vec.NotFinite(x); i >= 0 {
		return fmt.Errorf("element %d is %v: expected finite numbers; use another checkpoint", i, x[i])
	}
	return nil
}
