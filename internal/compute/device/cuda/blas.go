package cuda

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/compute/device/cuda/driver"
)

// openBLAS opens the first cuBLAS that starts. It tries versions of CUDA that the driver supports first, because newer
// ones usually do not start. If none starts, vsetrain's kernel computes products, and the device warns.
func (d *dev) openBLAS(paths []string) error {
	supported, err := d.drv.Version()
	if err != nil {
		return err
	}
	paths = slices.Clone(paths)
	slices.SortStableFunc(paths, func(a, b string) int {
		return cmp.Compare(max(blasVersion(a), supported/1000), max(blasVersion(b), supported/1000))
	})
	var failed []string
	for _, path := range paths {
		b, err := driver.OpenBLAS(path, d.stream)
		if driver.Fault(err) || driver.BLASOutOfMemory(err) {
			return err
		}
		if err != nil {
			s := fmt.Sprintf("%s: %v", path, err)
			if v := blasVersion(path); v > supported/1000 {
				s += fmt.Sprintf(" (it is of CUDA %d, the driver is for CUDA %s)", v, version(supported))
			}
			failed = append(failed, s)
			continue
		}
		d.blas = b
		return d.lendWorkspace()
	}
	if len(failed) > 0 {
		d.warn("no cuBLAS starts, so vsetrain's own kernel, which is slow and has no TF32, computes products: %s; "+
			"install one that the driver supports (pip install nvidia-cublas-cu12), or set VSETRAIN_CUBLAS to it",
			strings.Join(failed, "; "))
	}
	return nil
}

var blasName = regexp.MustCompile(`^libcublas\.so\.(\d{1,4})`)

// blasVersion is the CUDA version in the name of a library, 0 if there is none.
func blasVersion(path string) int {
	m := blasName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return 0
	}
	v, _ := strconv.Atoi(m[1])
	return v
}

func (d *dev) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// checkPrecision warns if the GPU has no arithmetic for the precision, and changes it to fp32 if cuBLAS refuses it.
func (d *dev) checkPrecision() error {
	gpu := fmt.Sprintf("%s has compute capability %d.%d", d.info.Name, d.info.Major, d.info.Minor)
	old := d.info.Major < 8 // Ampere, the first with both
	if d.precision == TF32 && old {
		d.warn("device.precision tf32 has no effect: %s, TF32 needs 8.0; products are computed in fp32", gpu)
	}
	if d.precision != BF16 || d.blas == nil {
		return nil
	}
	err := d.tryBF16()
	switch {
	case driver.NotSupported(err):
		d.warn("cuBLAS refuses products of device.precision bf16 on this GPU (%v): %s; products are computed in fp32",
			err, gpu)
		d.precision, d.bf16.on, d.tensor = FP32, false, tensorNone
		return nil
	case err == nil && old:
		d.warn("device.precision bf16 is slow on this GPU: %s, bfloat16 units need 8.0; set device.precision to fp32",
			gpu)
	}
	return err
}

// tryBF16 computes one small product of each kind that precision bf16 uses.
func (d *dev) tryBF16() error {
	const n = 16
	p, err := d.drv.Alloc(3 * 4 * n * n)
	if err != nil {
		return err
	}
	defer d.drv.Free(p)
	if err := d.drv.Fill(p, 0, 3*n*n, d.stream); err != nil {
		return err
	}
	g := driver.Gemm{M: n, N: n, K: n, A: p, B: at(p, n*n), C: at(p, 2*n*n), LDA: n, LDB: n, LDC: n, Count: 1, Alpha: 1,
		Compute: driver.ComputeBF16}
	for i := range 3 {
		if g.Half, g.HalfC = i > 0, i > 1; g.Half {
			g.Compute = driver.Compute32F
		}
		if err := d.blas.Gemm(&g); err != nil {
			return err
		}
	}
	return d.drv.Synchronize(d.stream)
}
