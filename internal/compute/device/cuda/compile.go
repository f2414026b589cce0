package cuda

import (
	"bytes"
	"fmt"
	"maps"
	"time"

	"vsetrain/internal/compute/device/cuda/driver"
)

// Compiler is implemented by the devices of this package.
type Compiler interface {
	// Compile loads the kernels for this GPU that are not loaded, and returns how long each file of them took. The
	// driver compiles them unless its cache has them (docs/cuda.md). A training loads kernels when it uses them.
	Compile(now func() time.Time) ([]Compiled, error)
}

// Compiled is a loaded file of kernels.
type Compiled struct {
	Name    string
	Kernels int
	Seconds float64
}

// Compile implements Compiler.
func (d *dev) Compile(now func() time.Time) (all []Compiled, err error) {
	d.run(func() error {
		for _, m := range d.modules {
			if m.handle != 0 || !m.runsOn(d.info) {
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
	err = d.wait()
	return all, err
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
	// Launches returns how often each kernel for this GPU was launched, including kernels with 0 launches; a recorded
	// launch counts once.
	Launches() map[string]int
	// Barred returns the kernels for this GPU that the device cannot start, each with the reason: what the machine
	// lacks.
	Barred() map[string]string
}

// Launches implements Launcher.
func (d *dev) Launches() map[string]int {
	all := map[string]int{}
	d.run(func() error {
		for _, m := range d.modules {
			for _, f := range m.functions {
				if m.runsOn(d.info) {
					all[f.Name] = f.launched
				}
			}
		}
		return nil
	})
	d.wait()
	return all
}

// runsOn reports whether a GPU can run the kernels.
func (m *module) runsOn(gpu driver.Info) bool { return m.target() <= 10*gpu.Major+gpu.Minor }

// barred are the reasons why kernels cannot be started, by their names.
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
	// BLAS returns the file of the cuBLAS that computes products, and its version; both are empty without cuBLAS.
	BLAS() (path, version string)
}

// BLAS implements Multiplier.
func (d *dev) BLAS() (path, version string) {
	if d.blas == nil {
		return "", ""
	}
	return d.blas.Path(), d.blasVersion()
}
