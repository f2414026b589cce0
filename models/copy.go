package models

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/pages"
	"vsetrain/internal/compute/vec"
)

// Copy is a copy of views of a device in main memory. Another goroutine may read it while the device continues.
type Copy struct {
	floats  []float32
	doubles []float64 // in place of floats if the device has float64
	pages   []byte
	ready   chan struct{}
	parts   []copied
}

type copied struct {
	device.View
	at int // in floats or doubles
}

// NewCopy allocates memory for n values of a device, until Close. It touches the memory in the background, because the
// first access takes longer than the copy.
func NewCopy(dev device.Device, n int) (c *Copy, err error) {
	c = &Copy{ready: make(chan struct{})}
	if dev.Float64() {
		c.doubles, c.pages, err = pages.New[float64](n)
	} else {
		c.floats, c.pages, err = pages.New[float32](n)
	}
	go func() {
		defer close(c.ready)
		touch(c.floats)
		touch(c.doubles)
	}()
	return c, err
}

// touch clears memory in pieces, because the garbage collector cannot interrupt a piece.
func touch[T vec.Float](x []T) {
	for piece := range slices.Chunk(x, downloadPiece) {
		clear(piece)
	}
}

// Close frees the memory.
func (c *Copy) Close() {
	<-c.ready
	pages.Free(c.pages)
}

// Take copies views, in place of the views of an earlier call.
func (c *Copy) Take(dev device.Device, views ...device.View) error {
	<-c.ready
	c.parts = c.parts[:0]
	at := 0
	for _, v := range views {
		switch to := at + v.N; {
		case v.N == 0:
		case c.Float64():
			dev.DownloadDoubles(c.doubles[at:to], v)
		default:
			dev.DownloadFloats(c.floats[at:to], v)
		}
		c.parts = append(c.parts, copied{v, at})
		at += v.N
	}
	return dev.Sync() // a device that failed gave NaN
}

// Float64, DownloadFloats, DownloadDoubles and Sync implement Values.
func (c *Copy) Float64() bool { return c.doubles != nil }

func (c *Copy) DownloadFloats(dst []float32, src device.View) { copy(dst, c.floats[c.at(src):]) }

func (c *Copy) DownloadDoubles(dst []float64, src device.View) { copy(dst, c.doubles[c.at(src):]) }

func (c *Copy) Sync() error { return nil }

// at returns the position of a view, which must be part of a view that was copied.
func (c *Copy) at(v device.View) int {
	p := c.parts[slices.IndexFunc(c.parts, func(p copied) bool {
		return p.Buf == v.Buf && p.Off <= v.Off && v.Off+v.N <= p.Off+p.N
	})]
	return p.at + v.Off - p.Off
}
