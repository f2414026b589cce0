package cuda_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// said are the warnings of a device in one string.
func said(d device.Device) string { return strings.Join(d.(device.Warner).Warnings(), "\n") }

// A cuBLAS that does not start gives way to the next, and in the end to products of the own kernel, which is said. One
// that is newer than the driver comes last.
func TestOtherCuBLAS(t *testing.T) {
	path, dir := emulator.Library(t), t.TempDir()
	var files []string
	for _, name := range []string{"libcublas.so.13", "libcublas.so.12"} {
		files = append(files, filepath.Join(dir, name))
		try.Do(t, os.Symlink(path, files[len(files)-1]))
	}
	for _, c := range []struct {
		name            string
		driver, refused int
		paths           []string
		product         string
		says            []string
	}{
		{"new driver", 13000, 0, files, "/libcublas.so.13", nil},
		{"old driver", 12080, 0, files, "/libcublas.so.12", nil},
		{"no cuBLAS", 13000, 0, []string{"libc.so.6", files[1]}, "/libcublas.so.12", nil},
		{"the first refuses", 13000, 1, files, "/libcublas.so.12", nil},
		{"all refuse", 12080, 2, files, "", []string{"vsetrain's own kernel, which is slow", "/libcublas.so.12: ",
			"CUBLAS_STATUS_NOT_INITIALIZED",
			"/libcublas.so.13: ", "it is of CUDA 13, the driver is for CUDA 12.8", "VSETRAIN_CUBLAS"}},
		{"none is there", 13000, 0, []string{"/nowhere/libcublas.so.12"}, "", []string{"/nowhere/libcublas.so.12"}},
	} {
		emulator.Set(t, "version", c.driver, 13000)
		emulator.Set(t, "no_blas", c.refused, 0)
		d := open(t, cuda.Options{BLAS: c.paths})
		if got := cuda.BLASPath(d); !strings.HasSuffix(got, c.product) || (got == "") != (c.product == "") {
			t.Errorf("%s: cuBLAS %q, want %q", c.name, got, c.product)
		}
		if (said(d) == "") != (c.says == nil) {
			t.Errorf("%s: warnings %q", c.name, said(d))
		}
		for _, s := range c.says {
			if !strings.Contains(said(d), s) {
				t.Errorf("%s: warnings %q, expected %q", c.name, said(d), s)
			}
		}
		d.Close()
	}
}

// A GPU without arithmetic of the precision is a warning; where cuBLAS refuses it, products are computed as in fp32.
func TestPrecisionThatTheGPULacks(t *testing.T) {
	for _, c := range []struct {
		precision          string
		capability, refuse int
		blas               bool
		name, says         string
	}{
		{cuda.BF16, 90, 0, true, "bf16", ""},
		{cuda.TF32, 80, 0, true, "tf32", ""},
		{cuda.TF32, 75, 0, true, "tf32", "tf32 has no effect"},
		{cuda.FP32, 75, 0, true, "fp32", ""},
		{cuda.BF16, 75, 0, true, "bf16", "bf16 is slow on this GPU"},
		{cuda.BF16, 75, 1, true, "fp32", "CUBLAS_STATUS_NOT_SUPPORTED"},
		{cuda.BF16, 90, 1, true, "fp32", "products are computed in fp32"},
		{cuda.BF16, 75, 1, false, "bf16", ""},
	} {
		emulator.Set(t, "capability", c.capability, 90)
		emulator.Set(t, "no_half", c.refuse, 0)
		o := cuda.Options{Precision: c.precision, RoundFrom: 1}
		if c.blas {
			o.BLAS = []string{"emulated"}
		}
		b := newBench(t, o)
		d := b.Device
		if !strings.HasSuffix(d.Name(), c.name) || !strings.Contains(said(d), c.says) ||
			(said(d) == "") != (c.says == "") {
			t.Errorf("%+v: %s, warnings %q", c, d.Name(), said(d))
		}
		if strings.Contains(d.Name(), "cuBLAS 13.1 products") != c.blas {
			t.Errorf("%+v: %s", c, d.Name())
		}
		x, out := b.floats(1+1./1024), b.floats(0)
		device.Do(d, device.Gemm{M: 1, N: 1, K: 1, Alpha: 1, A: x, B: b.floats(1), C: out})
		want := float32(1 + 1./1024)
		if c.name == "bf16" {
			want = 1
		}
		b.want(fmt.Sprintf("%+v", c), out, want)
	}
}

// Memory is freed when the work that uses it is done, also by a driver that does not wait: buffers, scratch memory that
// grows, tables, stages and pinned memory.
func TestFreeWaitsForWork(t *testing.T) {
	emulator.Library(t)
	for _, deferred := range []int{1, 2} {
		emulator.Set(t, "defer", deferred, 0)
		emulator.Set(t, "free_waits", 0, 1)
		b := newBench(t, cuda.Options{})
		r, f := b.Device.(device.Resident), b.Device.(device.Recorder)
		x, y := b.floats(1, 2), b.floats(0, 0)
		used := b.floats(3, 4)
		device.Do(b.Device, device.Add{Dst: y, A: x, B: used})
		b.Free(used.Buf)
		table := try.Get(r.NewTable(2, false))(t)
		r.Store(table, 0, []float32{5, 6})
		z := b.floats(0, 0)
		device.Do(b.Device, device.Gather{Dst: z, Table: table, Index: b.ints(0), Width: 2})
		r.FreeTable(table)
		f.Fetch(0, y)
		got, err := f.Fetched(0)
		if err != nil || got[0] != 4 || got[1] != 6 {
			t.Errorf("defer %d: sum %v, %v", deferred, got, err)
		}
		for _, n := range []int{8, 64, 512} { // scratch memory of a column sum grows
			m, sum := b.nan(n*n), b.alloc(device.Float, n)
			device.Do(b.Device, device.ColumnSum{Dst: sum, X: m, Rows: n, Columns: n})
			b.Free(m.Buf)
		}
		if err := b.Sync(); err != nil {
			t.Errorf("defer %d: %v", deferred, err)
		}
		b.want("row", z, 5, 6)
		b.Close()
	}
}

// A bias is added in the kernel of the product where cuBLAS can do that, otherwise by a kernel after it, to the same
// bits; so is one of a product that is recorded.
func TestBiasInProduct(t *testing.T) {
	for _, precision := range []string{cuda.FP32, cuda.BF16} {
		var first []float32
		for _, refused := range []int{0, 1} {
			emulator.Set(t, "no_bias", refused, 0)
			b := newBench(t, cuda.Options{BLAS: []string{"emulated"}, Precision: precision, RoundFrom: 1})
			d := b.Device
			const m, n, k = 5, 7, 3
			x := make([]float32, 200)
			for i := range x {
				x[i] = float32(i%13) / 7
			}
			c := b.alloc(device.Float, m*n)
			a := device.Gemm{TransB: true, M: m, N: n, K: k, Alpha: 1, A: b.floats(x[:m*k]...),
				B: b.floats(x[20:][:n*k]...), C: c, Bias: b.floats(x[50:][:n]...)}
			if got := b.launches(func() { device.Do(d, a) }); precision == cuda.FP32 && got != refused {
				t.Errorf("refused %d: %d launches, want %d", refused, got, refused)
			}
			got := make([]float32, m*n)
			d.DownloadFloats(got, c)
			if refused == 0 {
				first = got
			}
			if !slices.Equal(got, first) {
				t.Errorf("%s: %v, with the bias in the product %v", precision, got, first)
			}
			want := x[50]
			for i := range k {
				want += x[i] * x[20+i]
			}
			if math.Abs(float64(got[0]-want)) > 0.02 {
				t.Errorf("%s: the first element is %v, want %v", precision, got[0], want)
			}
			r := try.Get(d.(device.Recorder).Record(func() { device.Do(d, a) }))(t)
			device.Do(d, device.Fill{Dst: c})
			d.(device.Recorder).Replay(r)
			b.want("recorded", c, first...)
		}
	}
}
