package null

import (
	"testing"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/try"
)

// What a GPU refuses is refused, and does not count.
func TestRefusals(t *testing.T) {
	d := New(driver.Info{Memory: 1000})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	p, err := d.Alloc(600)
	must(err)
	_, err = d.Alloc(600)
	if !driver.OutOfMemory(err) {
		t.Errorf("a full GPU: %v", err)
	}
	must(d.Free(p))
	refused("memory freed twice", d.Free(p))
	_, err = d.Alloc(1000)
	must(err)
	if d.Peak != 1000 {
		t.Errorf("at most %d bytes in use, want 1000", d.Peak)
	}
	m, err := d.LoadModule([]byte(".version 7.0\n.visible .entry add(\n"))
	must(err)
	f, err := d.Function(m, "add")
	must(err)
	_, err = d.Function(m, "ad")
	refused("a kernel that is not there", err)
	must(d.BeginCapture(1))
	for _, l := range []driver.Launch{{Grid: [3]uint32{1, 1, 1}}, {Grid: [3]uint32{1, 0, 1}, Threads: 32},
		{Grid: [3]uint32{1, 65536, 1}, Threads: 32},
		{Grid: [3]uint32{1 << 31, 1, 1}, Threads: 32}, {Grid: [3]uint32{1, 1, 1}, Threads: 1025}} {
		refused("a launch", d.Launch(f, &l, 1))
	}
	b, err := d.OpenBLAS(1)
	must(err)
	refused("a leading dimension", b.Gemm(&driver.Gemm{M: 2, N: 3, K: 4, LDA: 3, LDB: 3, LDC: 3, Count: 1}))
	_, err = d.Alloc(1)
	refused("memory while recording", err)
	refused("waiting while recording", d.Synchronize(1))
	must(d.Launch(f, &driver.Launch{Grid: [3]uint32{7, 1, 1}, Threads: 32}, 1))
	must(b.Gemm(&driver.Gemm{M: 2, N: 3, K: 4, LDA: 4, LDB: 3, LDC: 3, Count: 1}))
	must(d.Copy(1, 2, 4, 1))
	g, err := d.EndCapture(1)
	must(err)
	must(d.LaunchGraph(driver.Exec(g), 1))
	if d.Nodes() != 3 || d.Largest["add"] != 1 || d.Largest["product"] != 1 || d.Recordings != 1 || d.Replays != 1 {
		t.Errorf("%d nodes, %v, %d recordings, %d replays", d.Nodes(), d.Largest, d.Recordings, d.Replays)
	}
}

// Blocks that run at once are as many as there are multiprocessors, with the shared memory that the GPU has for one.
func TestBlocksAtOnce(t *testing.T) {
	d := New(driver.Info{Multiprocessors: 3, MaxSharedBytesPerBlock: 100 << 10, Together: true})
	for _, c := range []struct{ shared, want int }{{100 << 10, 1}, {100<<10 + 1, 0}} {
		if n, err := d.Resident(1, 256, c.shared); n != c.want || err != nil {
			t.Errorf("%d bytes: %d blocks, %v, want %d", c.shared, n, err, c.want)
		}
	}
	if err := d.Allow(1, 100<<10+1); err == nil {
		t.Error("a block may have more shared memory than there is")
	}
	try.Do(t, d.Allow(1, 100<<10))
	for _, c := range []struct {
		blocks, shared uint32
		together       bool
		taken          bool
	}{{3, 100 << 10, true, true}, {4, 0, true, false}, {4, 100 << 10, false, true}, {1, 100<<10 + 1, false, false}} {
		err := d.Launch(1, &driver.Launch{Grid: [3]uint32{c.blocks, 1, 1}, Threads: 32, Shared: c.shared,
			Together: c.together}, 1)
		if (err == nil) != c.taken {
			t.Errorf("%+v: %v", c, err)
		}
	}
	d.GPU.Together = false
	if err := d.Launch(1, &driver.Launch{Grid: [3]uint32{1, 1, 1}, Threads: 32, Together: true}, 1); err == nil {
		t.Error("a GPU that does not run blocks at once does")
	}
}

// What is read from the GPU is zero.
func TestDownload(t *testing.T) {
	d := New(driver.Info{Memory: 100})
	x := []float32{1, 2}
	if err := d.Download(unsafe.Pointer(&x[0]), 1, 8, 1); err != nil || x[0] != 0 || x[1] != 0 {
		t.Errorf("%v, %v", x, err)
	}
}
