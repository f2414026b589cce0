package cuda_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// If the driver claims to support cooperative launches and refuses them, recurrences are computed step by step.
func TestBlocksThatAreNotStartedTogether(t *testing.T) {
	emulator.Set(t, "cooperative", 3, 1)
	d := open(t, cuda.Options{Precision: cuda.BF16})
	defer d.Close()
	m := devicetest.Measure(d, "BiGRU", devicetest.RoundsBF16)
	n := d.(cuda.Launcher).Launches()
	if len(m.Failures) > 0 || n["gru_tensor_steps"] > 0 || n["gru_tensor_step"] == 0 {
		t.Errorf("%v; all steps %d times, one %d times", m.Failures, n["gru_tensor_steps"], n["gru_tensor_step"])
	}
	if w := said(d); strings.Count(w, "recurrences are computed step by step") != 1 {
		t.Error(w)
	}
}

// If cublasLt does not support the address or the sizes of a bias, another kernel adds it, without a warning; if
// cublasLt fails otherwise, with a warning.
func TestBiasesThatCUBLASFailsAt(t *testing.T) {
	d := open(t, cuda.Options{BLAS: []string{"emulated"}})
	defer d.Close()
	if m := devicetest.Measure(d, "Gemm", 0); len(m.Failures) > 0 || said(d) != "" {
		t.Errorf("%v; %s", m.Failures, said(d))
	}
	emulator.Set(t, "no_bias", 2, 0)
	if m := devicetest.Measure(d, "Gemm", 0); len(m.Failures) > 0 ||
		strings.Count(said(d), "cuBLAS does not add a bias") != 1 {
		t.Errorf("%v; %s", m.Failures, said(d))
	}
}

// If a GPU never finishes its work, the next call that waits for it, whichever that is, returns an error in time. The
// error names the work since the GPU last answered. After that every call returns at once.
func TestGPUThatHangs(t *testing.T) {
	const timeout = 40 * time.Millisecond
	waits := map[string]func(b *bench, v, spare device.View) error{
		"Sync": func(b *bench, v, _ device.View) error { return b.Sync() },
		"Alloc": func(b *bench, v, _ device.View) error {
			return cmp.Or(second(b.Alloc(device.Float, 99)), b.Sync())
		},
		"Free":   func(b *bench, _, spare device.View) error { b.Free(spare.Buf); return b.Sync() },
		"Upload": func(b *bench, v, _ device.View) error { b.UploadFloats(v, make([]float32, v.N)); return b.Sync() },
		"Download": func(b *bench, v, _ device.View) error {
			x := make([]float32, v.N)
			if b.DownloadFloats(x, v); x[0] == x[0] {
				return fmt.Errorf("values of a GPU that hangs are %v", x)
			}
			return b.Sync()
		},
		"Fetched": func(b *bench, v, _ device.View) error {
			b.Device.(device.Recorder).Fetch(1, v)
			return second(b.Device.(device.Recorder).Fetched(1))
		},
		"more launches": func(b *bench, v, _ device.View) error {
			for range 500 {
				device.Do(b.Device, device.Combine{Dst: v, A: v, Alpha: 2})
			}
			return b.Sync()
		},
	}
	draw := rand.New(rand.NewPCG(51, 2))
	for n := range 6 {
		for name, wait := range waits {
			deferred, replayed, before, at := n%2, n%3 == 0, draw.IntN(90), draw.IntN(90)
			what := fmt.Sprintf("%s, deferred %d, replayed %t, launch %d after %d", name, deferred, replayed, at,
				before)
			b := newBench(t, cuda.Options{})
			v, spare := b.floats(1, 2, 3), b.floats(4)
			launches := func(n int) {
				for i := range n {
					b.Device.(device.Namer).At(fmt.Sprintf("node %d", i))
					device.Do(b.Device, device.Combine{Dst: v, A: v, Alpha: 2})
				}
			}
			launches(1 + before)
			try.Do(t, b.Sync())
			var r device.Recording
			if replayed {
				b.Device.(device.Namer).At("the step")
				r = try.Get(b.Device.(device.Recorder).Record(func() { launches(3) }))(t)
			}
			emulator.Set(t, "defer", deferred, 0)
			emulator.Set(t, "hang", 1+at, 0)
			cuda.SetTimeout(b.Device, timeout)
			if replayed {
				for range 1 + at {
					b.Device.(device.Recorder).Replay(r)
				}
			} else {
				launches(1 + at)
			}
			start := time.Now()
			err := wait(b, v, spare)
			if took := time.Since(start); took > 50*timeout {
				t.Errorf("%s: took %v", what, took)
			}
			want := "kernel combine in node "
			if replayed {
				want = "recorded the step"
			}
			try.Fails(t, err, "the GPU has not answered for 40ms: it is at ", want, "device.timeout")
			if failed := (*device.Error)(nil); !errors.As(err, &failed) {
				t.Errorf("%s: %v is not a failure of the device", what, err)
			}
			start = time.Now()
			launches(300)
			try.Fails(t, b.Sync(), "has not answered")
			try.Fails(t, second(b.Alloc(device.Float, 1)), "has not answered")
			if err := b.Close(); err != nil || time.Since(start) > 10*timeout {
				t.Errorf("%s: closed after %v: %v", what, time.Since(start), err)
			}
			emulator.Set(t, "hang", 0, 0)
			cuda.AwaitLeft(b.Device)
			emulator.Set(t, "defer", 0, 0)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A device does not hang if each of its calls returns in time, however long they take together.
func TestSlowGPUDoesNotHang(t *testing.T) {
	d := open(t, cuda.Options{})
	defer d.Close()
	cuda.SetTimeout(d, 500*time.Millisecond)
	for range 20 {
		cuda.Stall(d, 50*time.Millisecond)
	}
	try.Do(t, d.Sync())
}

// The error has the messages of the driver's compiler.
func TestErrorOfTheCompiler(t *testing.T) {
	d := try.Get(driver.Open(emulator.Library(t)))(t)
	c := try.Get(d.Retain(0))(t)
	try.Do(t, d.SetCurrent(c))
	if _, err := d.LoadModule([]byte("no PTX")); err == nil ||
		!strings.Contains(err.Error(), "the driver's compiler says: ptxas application ptx input, line 1; fatal") {
		t.Error(err)
	}
}
