package driver

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// wanted is a library with the file names that serve, best first.
type wanted struct {
	name, setting string
	files         []string
	install       string
}

var (
	wantedDriver = wanted{"CUDA driver", "VSETRAIN_CUDA_DRIVER", []string{"libcuda.so.1"},
		"install the NVIDIA driver, version 470 or later (Debian: nvidia-driver; Ubuntu: nvidia-driver-570; in a " +
			"container: run it with --gpus all)"}
	wantedBLAS = wanted{"cuBLAS", "VSETRAIN_CUBLAS", []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
		"pip install nvidia-cublas-cu12 (for CUDA 13: nvidia-cublas), conda install libcublas, or the package " +
			"libcublas-12-8 of NVIDIA's repository; without it products run on vsetrain's own kernel, which is " +
			"slower and knows no TF32"}
	wantedNVML = wanted{"NVML", "VSETRAIN_NVML", []string{"libnvidia-ml.so.1"},
		"it comes with the NVIDIA driver (Debian: libnvidia-ml1; in a container: " +
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility)"}
)

// Library is a GPU library and where it was found.
type Library struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`              // empty: not found
	From    string   `json:"from"`              // setting, loader path, driver folder, CUDA toolkit, conda, pip
	Others  []string `json:"others,omitempty"`  // files found behind it, to be tried where it does not start
	Setting string   `json:"setting"`           // the environment variable that names the file
	Tried   []string `json:"tried,omitempty"`   // where it is missing: the folders that were looked into
	Install string   `json:"install,omitempty"` // where it is missing: what to install
}

// Missing says that a library was not found, and what helps.
func (l Library) Missing() string {
	return fmt.Sprintf("%s not found in %d folders; %s; or name the file in %s", l.Name, len(l.Tried), l.Install,
		l.Setting)
}

// Paths are all files that were found, the best first.
func (l Library) Paths() []string {
	if l.Path == "" {
		return nil
	}
	return append([]string{l.Path}, l.Others...)
}

// folder is one in which libraries may lie, relative to the root; a pattern of filepath.Glob.
type folder struct{ from, dir string }

// Search looks for the driver and for cuBLAS, in this order: the file that VSETRAIN_CUDA_DRIVER or VSETRAIN_CUBLAS
// names, and then no other; the loader's path (LD_LIBRARY_PATH, ld.so.conf, default folders); folders of the driver
// that no loader knows; the CUDA toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda*, /opt/cuda, NVIDIA's HPC SDK); conda
// (CONDA_PREFIX, /opt/conda); and pip's nvidia packages of CUDA 11 to 13, PyTorch's among them (VIRTUAL_ENV, .venv of
// the working folder, CONDA_PREFIX, the user's, those beside a bin in PATH and beside what python and python3 in PATH
// are links to, PYENV_ROOT, the system's). Of several files in one folder the newest comes first. It looks for files
// only and loads nothing. root is "/" except in tests.
func Search(root string, getenv func(string) string) (cuda, blas Library) {
	in := folders(root, getenv)
	return find(root, getenv, wantedDriver, in), find(root, getenv, wantedBLAS, in)
}

// SearchNVML looks for NVIDIA's management library in the same places, or takes the file that VSETRAIN_NVML names.
func SearchNVML(root string, getenv func(string) string) Library {
	return find(root, getenv, wantedNVML, folders(root, getenv))
}

func find(root string, getenv func(string) string, w wanted, folders []folder) Library {
	lib := Library{Name: w.name, Setting: w.setting}
	if file := getenv(w.setting); file != "" {
		lib.Path, lib.From = file, "setting"
		return lib
	}
	for _, p := range folders {
		for _, file := range filesIn(root, p.dir, w.files) {
			switch {
			case lib.Path == "":
				lib.Path, lib.From = file, p.from
			case file != lib.Path && !slices.Contains(lib.Others, file):
				lib.Others = append(lib.Others, file)
			}
		}
	}
	if lib.Path == "" {
		lib.Install = w.install
		for _, p := range folders {
			lib.Tried = append(lib.Tried, p.dir)
		}
	}
	return lib
}

func folders(root string, getenv func(string) string) []folder {
	var ps []folder
	add := func(from string, dirs ...string) {
		for _, d := range dirs {
			ps = append(ps, folder{from, d})
		}
	}
	env := func(from, name string, below ...string) {
		for _, prefix := range filepath.SplitList(getenv(name)) {
			for _, b := range below {
				if filepath.IsAbs(prefix) {
					add(from, filepath.Join(prefix, b))
				}
			}
		}
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	env("loader path", "LD_LIBRARY_PATH", "")
	add("loader path", loaderConf(root, "etc/ld.so.conf", 0)...)
	add("loader path", "/lib/"+arch+"-linux-gnu", "/usr/lib/"+arch+"-linux-gnu", "/lib64", "/usr/lib64", "/lib",
		"/usr/lib")
	add("driver folder", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/lib/"+arch+"-linux-gnu/nvidia/current",
		"/run/opengl-driver/lib")
	lib := []string{"lib64", "lib", "targets/" + arch + "-linux/lib"}
	env("CUDA toolkit", "CUDA_HOME", lib...)
	env("CUDA toolkit", "CUDA_PATH", lib...)
	for _, l := range lib {
		add("CUDA toolkit", "/usr/local/cuda/"+l, "/usr/local/cuda-*/"+l, "/opt/cuda/"+l)
	}
	for _, prefix := range []string{"/opt/nvidia/hpc_sdk", "/opt/nvhpc"} {
		add("CUDA toolkit", prefix+"/Linux_"+arch+"/*/math_libs/*/lib64", prefix+"/Linux_"+arch+"/*/math_libs/lib64")
	}
	env("conda", "CONDA_PREFIX", lib...)
	add("conda", "/opt/conda/lib")
	beside := pythons(root, getenv)
	for _, packages := range []string{"site-packages", "dist-packages"} {
		for _, python := range []string{"lib/python3*", "lib64/python3*"} {
			for _, nvidia := range []string{"nvidia/cublas/lib", "nvidia/cu*/lib", "torch/lib"} {
				dir := filepath.Join(python, packages, nvidia)
				env("pip", "VIRTUAL_ENV", dir)
				env("pip", "PWD", filepath.Join(".venv", dir), filepath.Join("venv", dir))
				env("pip", "CONDA_PREFIX", dir)
				env("pip", "HOME", filepath.Join(".local", dir))
				for _, prefix := range beside {
					add("pip", filepath.Join(prefix, dir))
				}
				env("pip", "PYENV_ROOT", filepath.Join("versions/*", dir))
				env("pip", "HOME", filepath.Join(".pyenv/versions/*", dir))
				add("pip", "/usr/local/"+dir, "/usr/"+dir, "/opt/conda/"+dir, "/opt/venv/"+dir)
			}
		}
	}
	return ps
}

// loaderConf returns the folders that the loader's configuration and the files it includes name.
func loaderConf(root, name string, depth int) []string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil || depth > 4 {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		pattern, include := strings.CutPrefix(line, "include ")
		if !include {
			if filepath.IsAbs(line) {
				dirs = append(dirs, line)
			}
			continue
		}
		pattern = strings.TrimSpace(pattern)
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(name), pattern)
		}
		for _, file := range glob(root, pattern) {
			dirs = append(dirs, loaderConf(root, file, depth+1)...)
		}
	}
	return dirs
}

// pythons returns the folders of the Pythons in PATH: those above a bin, and those above the bin that python or python3
// is a link into, one link after the other.
func pythons(root string, getenv func(string) string) (prefixes []string) {
	add := func(bin string) {
		if p := filepath.Dir(bin); filepath.Base(bin) == "bin" && !slices.Contains(prefixes, p) {
			prefixes = append(prefixes, p)
		}
	}
	for _, bin := range filepath.SplitList(getenv("PATH")) {
		if !filepath.IsAbs(bin) {
			continue
		}
		add(filepath.Clean(bin))
		for _, name := range []string{"python3", "python"} {
			file := filepath.Join(bin, name)
			for range 8 {
				to, err := os.Readlink(filepath.Join(root, file))
				if err != nil {
					break
				}
				if !filepath.IsAbs(to) {
					to = filepath.Join(filepath.Dir(file), to)
				}
				file = to
				add(filepath.Dir(file))
			}
		}
	}
	return prefixes
}

// filesIn returns the files in the folders that the pattern names, the best name first, of one name those of the newest
// folder.
func filesIn(root, pattern string, files []string) (found []string) {
	dirs := glob(root, pattern)
	slices.SortStableFunc(dirs, func(a, b string) int { return compareNumbers(b, a) }) // cuda-12.10 before cuda-12.9
	for _, f := range files {
		for _, d := range dirs {
			if info, err := os.Stat(filepath.Join(root, d, f)); err == nil && info.Mode()&fs.ModeType == 0 {
				found = append(found, filepath.Join(d, f))
			}
		}
	}
	return found
}

// compareNumbers compares as text, but runs of digits as numbers.
func compareNumbers(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		return n
	}
	for a != "" && b != "" {
		if i, j := digits(a), digits(b); i > 0 && j > 0 {
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// glob returns the paths below root that match, relative to it, with a leading slash.
func glob(root, pattern string) []string {
	names, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return nil // a folder whose name is a bad pattern holds no library
	}
	for i, n := range names {
		names[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(n, filepath.Clean(root)), "/")
	}
	return names
}
