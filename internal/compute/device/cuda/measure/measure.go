// Package measure describes a GPU and measures the rates that determine the times of a training. It takes about ten
// seconds.
package measure

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
)

// Request names what is measured.
type Request struct {
	Driver string   // path of libcuda
	BLAS   []string // paths of cuBLAS, the best first; without any, only vsetrain's own products are measured
	NVML   []string // paths of NVML; the first that starts is used
	Index  int      // which GPU
	Getenv func(string) string
	Now    func() time.Time
}

// Report describes a GPU. Rates are bytes or operations a second.
type Report struct {
	Name            string      `json:"name"`
	Index           int         `json:"index"` // device.index
	Capability      string      `json:"compute_capability"`
	Multiprocessors int         `json:"multiprocessors"`
	UUID            string      `json:"uuid"`
	Bus             string      `json:"pci_bus"`
	Mode            string      `json:"mode"` // shared, or exclusive process
	MIG             bool        `json:"mig"`
	MemoryFree      int64       `json:"memory_free_bytes"`
	MemoryTotal     int64       `json:"memory_total_bytes"`
	CUDA            string      `json:"cuda"`                     // version that the driver supports
	DriverVersion   string      `json:"driver_version,omitempty"` // according to NVML
	Driver          string      `json:"driver"`                   // the file
	BLAS            string      `json:"cublas,omitempty"`
	BLASVersion     string      `json:"cublas_version,omitempty"`
	Monitor         string      `json:"nvml,omitempty"` // the file
	NoMonitor       string      `json:"nvml_missing,omitempty"`
	Others          []Neighbour `json:"other_processes,omitempty"` // on the GPU
	OpenSeconds     float64     `json:"open_seconds"`              // context, first kernels, cuBLAS
	Compile         Compile     `json:"compile"`
	Rates           []Rate      `json:"copies"`
	Products        []Product   `json:"products"`
	Warnings        []string    `json:"warnings,omitempty"`
	// Emulated says that no GPU computes, so times and rates mean nothing.
	Emulated bool `json:"emulated"`
}

// Neighbour is another process that computes on the GPU.
type Neighbour struct {
	Process int   `json:"process"`
	Memory  int64 `json:"memory_bytes"` // -1 if unknown
}

// Compile says how long loading all kernels took. The driver compiles kernels when they are first loaded, and keeps
// them in Cache.
type Compile struct {
	Files   int     `json:"files"`
	Kernels int     `json:"kernels"`
	Seconds float64 `json:"seconds"`
	Slowest string  `json:"slowest"` // file
	Longest float64 `json:"slowest_seconds"`
	Cache   string  `json:"cache"` // folder; empty if the driver keeps nothing
	// Kept says that the driver had all kernels: the folder did not grow.
	Kept bool `json:"kept"`
}

// Rate is how fast bytes move.
type Rate struct {
	What  string  `json:"what"`
	Bytes int64   `json:"bytes"` // of one copy
	Rate  float64 `json:"bytes_per_s"`
}

// Product is a large matrix product.
type Product struct {
	Precision string  `json:"precision"`
	By        string  `json:"by"` // cuBLAS, or vsetrain
	Size      int     `json:"size"`
	Rate      float64 `json:"flop_per_s"`
	// Error is the largest difference of a sample of elements from the product in float64, relative to the largest of
	// these elements; -1 if one is NaN.
	Error  float64 `json:"error"`
	Failed string  `json:"failed,omitempty"`
}

// emulatedName is what the emulated driver calls its GPU.
const emulatedName = "emulated GPU"

// GPU opens a GPU and measures it. The report says what is missing of cuBLAS and NVML.
func GPU(r Request) (*Report, error) {
	rep, err := driver.Within(driver.Timeout, "its start", func() (*Report, error) {
		rep := &Report{Index: r.Index, Driver: r.Driver}
		return rep, rep.look(r)
	})
	if err != nil {
		return nil, fmt.Errorf("device: cuda: %w", err)
	}
	before := folderBytes(driver.CacheFolder(r.Getenv))
	start := r.Now()
	open := func(precision string, blas []string) (*timed, error) {
		d, err := cuda.Open(cuda.Options{Driver: r.Driver, BLAS: blas, Index: r.Index, Precision: precision})
		if err != nil {
			return nil, err
		}
		for _, s := range d.(device.Warner).Warnings() {
			if !slices.Contains(rep.Warnings, s) {
				rep.Warnings = append(rep.Warnings, s)
			}
		}
		return &timed{Device: d, now: r.Now, quick: rep.Emulated, free: rep.MemoryFree}, nil
	}
	d, err := open(cuda.FP32, r.BLAS)
	if err != nil {
		return nil, err
	}
	rep.OpenSeconds = r.Now().Sub(start).Seconds()
	if err := cmp.Or(rep.compile(d, r, before), d.Close()); err != nil {
		return nil, err
	}
	if _, err := driver.Within(driver.Timeout, "copies between host and GPU", func() (any, error) {
		return nil, rep.copies(r)
	}); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if k.blas && rep.BLAS == "" { // none starts
			continue
		}
		var blas []string
		if k.blas {
			blas = r.BLAS
		}
		d, err := open(k.precision, blas)
		if err != nil {
			return nil, err
		}
		p, err := d.product(k)
		if err = cmp.Or(err, d.Close()); err != nil {
			return nil, err
		}
		rep.Products = append(rep.Products, p)
	}
	return rep, nil
}

// look fills in what needs no measurement.
func (rep *Report) look(r Request) error {
	drv, err := driver.Open(r.Driver)
	if err != nil {
		return err
	}
	n, err := drv.Devices()
	if err != nil {
		return err
	}
	if r.Index >= n {
		return &cuda.NoSuchGPUError{Index: r.Index, Count: n}
	}
	info, err := drv.Info(r.Index)
	if err != nil {
		return err
	}
	v, err := drv.Version()
	if err != nil {
		return err
	}
	rep.Name, rep.Multiprocessors, rep.UUID, rep.Bus = info.Name, info.Multiprocessors, info.UUID, info.Bus
	rep.Capability = fmt.Sprintf("%d.%d", info.Major, info.Minor)
	rep.Mode, rep.MIG, rep.Emulated = info.Mode.String(), info.MIG(), info.Name == emulatedName
	rep.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	rep.neighbours(r, info)
	return nil
}

// neighbours asks NVML for the driver's version and other processes. Nothing else needs NVML.
func (rep *Report) neighbours(r Request, info driver.Info) {
	err := errors.New("not found")
	for _, path := range r.NVML {
		var m driver.Monitor
		if m, err = driver.OpenMonitor(path, info); err != nil {
			continue
		}
		defer m.Close()
		rep.Monitor = path
		rep.DriverVersion, err = m.Driver()
		all, e := m.Processes()
		for _, p := range all {
			rep.Others = append(rep.Others, Neighbour{p.ID, p.Used})
		}
		err = errors.Join(err, e)
		break
	}
	if err != nil {
		rep.NoMonitor = err.Error()
	}
}

// compile loads all kernels, and notes which cuBLAS the device uses.
func (rep *Report) compile(d *timed, r Request, before int64) error {
	all, err := d.Device.(cuda.Compiler).Compile(r.Now)
	if err != nil {
		return err
	}
	c := &rep.Compile
	for _, m := range all {
		c.Files++
		c.Kernels += m.Kernels
		c.Seconds += m.Seconds
		if m.Seconds >= c.Longest {
			c.Slowest, c.Longest = m.Name, m.Seconds
		}
	}
	c.Cache = driver.CacheFolder(r.Getenv)
	c.Kept = c.Cache != "" && before > 0 && folderBytes(c.Cache) == before
	rep.BLAS, rep.BLASVersion = d.Device.(cuda.Multiplier).BLAS()
	return nil
}

// folderBytes is the size of the files of a folder.
func folderBytes(dir string) (n int64) {
	if dir == "" {
		return 0
	}
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil && !strings.HasPrefix(e.Name(), ".") {
				n += info.Size()
			}
		}
		return nil // the folder may change meanwhile
	})
	return n
}
