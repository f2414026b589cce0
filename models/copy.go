package models

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/pages"
	"vsetrain/internal/compute/vec"
)

// Copy is what some views of a device held at one moment, in main memory: Values that another goroutine may read while
// the device goes on.
type Copy struct {
	floats  []float32
	doubles []float64 // in their place where the device has float64
	pages   []byte
	ready   chan struct{}
	parts   []copied
}

type copied struct {
	device.View
	at int // in floats or doubles
}

// NewCopy makes memory for n values of a device, until Close. The system is made to give it meanwhile, which takes
// longer than to copy.
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

// touch writes all of some memory, in pieces, since the garbage collector cannot interrupt one.
func touch[T vec.Float](x []T) {
	for piece := range slices.Chunk(x, downloadPiece) {
		clear(piece)
	}
}

// Close gives the memory back.
func (c *Copy) Close() {
	<-c.ready
	pages.Free(c.pages)
}

// Take copies views, in the place of those that were copied before.
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

// at returns where a view lies, which must be in one that was copied.
func (c *Copy) at(v device.View) int {
	p := c.parts[slices.IndexFunc(c.parts, func(p copied) bool {
		return p.Buf == v.Buf && p.Off <= v.Off && v.Off+v.N <= p.Off+p.N
	})]
	return p.at + v.Off - p.Off
}
