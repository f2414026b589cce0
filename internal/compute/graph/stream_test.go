package graph_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// A large input is sent to a GPU while the program of the input before it runs, which does not see it; a small one
// waits for its turn.
func TestLargeInputsAreStreamed(t *testing.T) {
	for _, deferred := range []int{1, 2} {
		dev := try.Get(cuda.Open(cuda.Options{Driver: emulator.Library(t)}))(t)
		emulator.Set(t, "defer", deferred, 0)
		s := try.Get(graph.NewInstance(dev, nil))(t)
		const n = 5 << 19 // more than the pinned buffers hold
		g := s.Graph()
		y := g.Activate(device.Abs, g.Input("x", n/64, 64))
		p := try.Get(graph.Compile(s, g, []*graph.Node{y}, nil))(t)
		before := emulator.Finished(t)
		host, copies := make([]float32, n), make([]device.View, 3)
		for i := range copies {
			b := try.Get(dev.Alloc(device.Float, 2))(t)
			copies[i] = device.ViewOf(b)
		}
		for i := range copies {
			host[0], host[n-1] = float32(-1-i), float32(10+i)
			if i == 2 { // the last one comes in part
				try.Do(t, s.FeedPart("x", host[:n-64], n))
			} else {
				try.Do(t, s.Feed("x", host))
			}
			// The back buffer is empty when the copy of the input before has come, after the kernel of the one before
			// that. After each comes one that copies.
			if deferred == 1 && i > 0 && emulator.Finished(t)-before >= 2*i-1 {
				t.Errorf("input %d waited for the kernel of the one before", i)
			}
			try.Do(t, p.RunAll())
			device.Do(dev, device.Copy{Dst: copies[i].Slice(0, 1), Src: p.View(y).Slice(0, 1)})
			device.Do(dev, device.Copy{Dst: copies[i].Slice(1, 2), Src: p.View(y).Slice(n-1, n)})
		}
		for i, want := range [][2]float32{{1, 10}, {2, 11}, {3, 0}} {
			var got [2]float32
			dev.DownloadFloats(got[:], copies[i])
			if got != want {
				t.Errorf("defer %d: input %d gave %v, want %v", deferred, i, got, want)
			}
		}
		try.Do(t, dev.Close())
	}
}
