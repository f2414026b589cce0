package cuda

import (
	"bytes"
	"fmt"
	"maps"
	"time"
)

// Compiler is implemented by the devices of this package.
type Compiler interface {
	// Compile loads the kernels for this GPU that are not loaded yet, which the driver compiles unless it kept
	// them from an earlier start (docs/cuda.md), and says how long each file of them took. A training loads those
	// that it uses, when it uses them.
	Compile(now func() time.Time) ([]Compiled, error)
}

// Compiled is a file of kernels that was loaded.
type Compiled struct {
	Name    string
	Kernels int
	Seconds float64
}

// Compile implements Compiler.
func (d *dev) Compile(now func() time.Time) (all []Compiled, err error) {
	d.run(func() error {
		for _, m := range d.modules {
			if m.handle != 0 || m.target() > 10*d.info.Major+d.info.Minor {
				continue
			}
			start := now()
			if err := d.load(m); err != nil {
				return err
			}
			all = append(all, Compiled{m.Name, len(m.functions), now().Sub(start).Seconds()})
		}
		return nil
	})
	return all, d.wait()
}

// target is the compute capability that the PTX needs: 80 for 8.0.
func (m *module) target() (capability int) {
	if _, rest, ok := bytes.Cut(m.PTX, []byte(".target sm_")); ok {
		fmt.Fscan(bytes.NewReader(rest), &capability)
	}
	return capability
}

// Launcher is implemented by the devices of this package.
type Launcher interface {
	// Launches is how often each kernel for this GPU was started so far, with 0 for those that were not; kernels of a
	// recording count once.
	Launches() map[string]int
	// Barred are kernels for this GPU that the device does not start here, each with the reason: what the machine
	// lacks, not what was asked for.
	Barred() map[string]string
}

// Launches implements Launcher.
func (d *dev) Launches() map[string]int {
	all := map[string]int{}
	d.run(func() error {
		for _, m := range d.modules {
			for _, f := range m.functions {
				if m.target() <= 10*d.info.Major+d.info.Minor {
					all[f.Name] = f.launched
				}
			}
		}
		return nil
	})
	d.wait()
	return all
}

// barred are the reasons why kernels are not started, by their names.
type barred map[string]string

func (b barred) bar(k, format string, args ...any) {
	if b[k] == "" {
		b[k] = fmt.Sprintf(format, args...)
	}
}

// Barred implements Launcher.
func (b barred) Barred() map[string]string { return maps.Clone(b) }

// Multiplier is implemented by the devices of this package.
type Multiplier interface {
	// BLAS is the file of the cuBLAS that computes products, and its version, both empty where there is none.
	BLAS() (path, version string)
}

// BLAS implements Multiplier.
func (d *dev) BLAS() (path, version string) {
	if d.blas == nil {
		return "", ""
	}
	return d.blas.Path(), d.blasVersion()
}
