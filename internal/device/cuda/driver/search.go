package driver

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// wanted are the libraries a CUDA program needs, each with the file names that serve, best first.
var wanted = []struct {
	name, setting string
	files         []string
	install       string
}{
	{"CUDA driver", "VSETRAIN_CUDA_DRIVER", []string{"libcuda.so.1"},
		"install the NVIDIA driver, version 470 or later (Debian: nvidia-driver; Ubuntu: nvidia-driver-570; in a container: run it with --gpus all)"},
	{"cuBLAS", "VSETRAIN_CUBLAS", []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
		"pip install nvidia-cublas-cu12 (for CUDA 13: nvidia-cublas), conda install libcublas, or the package libcublas-12-8 of NVIDIA's repository; without it products run on vsetrain's own kernel, which is slower and knows no TF32"},
}

// Library is a GPU library and where it was found.
type Library struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`              // empty: not found
	From    string   `json:"from"`              // setting, loader path, driver folder, CUDA toolkit, conda, pip
	Setting string   `json:"setting"`           // the environment variable that names the file
	Tried   []string `json:"tried,omitempty"`   // where it is missing: the folders that were looked into
	Install string   `json:"install,omitempty"` // where it is missing: what to install
}

// Missing says that a library was not found, and what helps.
func (l Library) Missing() string {
	return fmt.Sprintf("%s not found in %d folders; %s; or name the file in %s", l.Name, len(l.Tried), l.Install, l.Setting)
}

// place is a folder in which libraries may lie, relative to the root; a pattern of filepath.Glob.
type place struct{ from, dir string }

// Search looks for the driver and for cuBLAS, in this order: the file that VSETRAIN_CUDA_DRIVER or VSETRAIN_CUBLAS names, the loader's path
// (LD_LIBRARY_PATH, ld.so.conf, default folders), folders of the driver that no loader knows, the CUDA toolkit (CUDA_HOME, CUDA_PATH,
// /usr/local/cuda*, /opt/cuda), conda (CONDA_PREFIX), and pip's nvidia packages of CUDA 11 to 13, PyTorch's among them (VIRTUAL_ENV, CONDA_PREFIX,
// the user's, those beside a bin in PATH, the system's). Of several files in one place the best one counts. It looks for files
// only and loads nothing. root is "/" but in tests.
func Search(root string, getenv func(string) string) (cuda, blas Library) {
	places := places(root, getenv)
	var found [2]Library
	for i, w := range wanted {
		lib := Library{Name: w.name, Setting: w.setting}
		if file := getenv(w.setting); file != "" {
			lib.Path, lib.From = file, "setting"
		}
		for _, p := range places {
			if lib.Path != "" {
				break
			}
			if lib.Path = firstFile(root, p.dir, w.files); lib.Path != "" {
				lib.From = p.from
			}
		}
		if lib.Path == "" {
			lib.Install = w.install
			for _, p := range places {
				lib.Tried = append(lib.Tried, p.dir)
			}
		}
		found[i] = lib
	}
	return found[0], found[1]
}

func places(root string, getenv func(string) string) []place {
	var ps []place
	add := func(from string, dirs ...string) {
		for _, d := range dirs {
			ps = append(ps, place{from, d})
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
	add("loader path", "/lib/"+arch+"-linux-gnu", "/usr/lib/"+arch+"-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
	add("driver folder", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/lib/"+arch+"-linux-gnu/nvidia/current", "/run/opengl-driver/lib")
	lib := []string{"lib64", "lib", "targets/" + arch + "-linux/lib"}
	env("CUDA toolkit", "CUDA_HOME", lib...)
	env("CUDA toolkit", "CUDA_PATH", lib...)
	for _, l := range lib {
		add("CUDA toolkit", "/usr/local/cuda/"+l, "/usr/local/cuda-*/"+l, "/opt/cuda/"+l)
	}
	env("conda", "CONDA_PREFIX", lib...)
	for _, packages := range []string{"site-packages", "dist-packages"} {
		for _, python := range []string{"lib/python3*", "lib64/python3*"} {
			for _, nvidia := range []string{"nvidia/cublas/lib", "nvidia/cu*/lib", "torch/lib"} {
				dir := filepath.Join(python, packages, nvidia)
				env("pip", "VIRTUAL_ENV", dir)
				env("pip", "CONDA_PREFIX", dir)
				env("pip", "HOME", filepath.Join(".local", dir))
				for _, bin := range filepath.SplitList(getenv("PATH")) { // of a Python that is called by its path
					if filepath.IsAbs(bin) && filepath.Base(bin) == "bin" {
						add("pip", filepath.Join(filepath.Dir(bin), dir))
					}
				}
				add("pip", "/usr/local/"+dir, "/usr/"+dir)
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

// firstFile returns the first of the files in the newest folder that the pattern names, "" where there is none.
func firstFile(root, pattern string, files []string) string {
	dirs := glob(root, pattern)
	slices.Reverse(dirs) // cuda-12.8 before cuda-11.4
	for _, f := range files {
		for _, d := range dirs {
			if info, err := os.Stat(filepath.Join(root, d, f)); err == nil && info.Mode()&fs.ModeType == 0 {
				return filepath.Join(d, f)
			}
		}
	}
	return ""
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
