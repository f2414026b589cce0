package driver

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// arch is the name of the processor in the names of folders.
var arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// env returns a getenv for variables.
func env(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestSearch(t *testing.T) {
	const nvidia = "/site-packages/nvidia/"
	for _, c := range []struct {
		name  string
		env   map[string]string
		from  string   // empty: no file is found
		files []string // the first one is found
	}{
		{"nothing", nil, "", []string{"usr/lib/libcublas.so"}},
		{"loader", nil, "loader path", []string{"usr/lib/" + arch + "-linux-gnu/libcublas.so.11",
			"usr/local/cuda/lib64/libcublas.so.13"}},
		{"LD_LIBRARY_PATH first", map[string]string{"LD_LIBRARY_PATH": "relative:/opt/x"}, "loader path",
			[]string{"opt/x/libcublas.so.12", "usr/lib/libcublas.so.13"}},
		{"ld.so.conf", nil, "loader path", []string{"opt/deep/libcublas.so.12"}},
		{"newest toolkit", nil, "CUDA toolkit", []string{"usr/local/cuda-12.8/lib64/libcublas.so.12",
			"usr/local/cuda-11.4/lib64/libcublas.so.11"}},
		{"CUDA_HOME before /usr/local", map[string]string{"CUDA_HOME": "/cuda"}, "CUDA toolkit",
			[]string{"cuda/lib64/libcublas.so.11", "usr/local/cuda/lib64/libcublas.so.12"}},
		{"conda", map[string]string{"CONDA_PREFIX": "/c"}, "conda", []string{"c/lib/libcublas.so.12"}},
		{"virtual environment", map[string]string{"VIRTUAL_ENV": "/v"}, "pip",
			[]string{"v/lib/python3.12" + nvidia + "cublas/lib/libcublas.so.12"}},
		{"CUDA 13 of pip", nil, "pip",
			[]string{"usr/local/lib/python3.13/dist-packages/nvidia/cu13/lib/libcublas.so.13"}},
		{"toolkit by its target", map[string]string{"CUDA_PATH": "/cuda"}, "CUDA toolkit",
			[]string{"cuda/targets/" + arch + "-linux/lib/libcublas.so.13"}},
		{"toolkit of Arch", nil, "CUDA toolkit", []string{"opt/cuda/lib64/libcublas.so.13"}},
		{"toolkit before conda", map[string]string{"CONDA_PREFIX": "/c"}, "CUDA toolkit",
			[]string{"usr/local/cuda/lib64/libcublas.so.12", "c/lib/libcublas.so.13"}},
		{"conda by its target", map[string]string{"CONDA_PREFIX": "/c"}, "conda",
			[]string{"c/targets/" + arch + "-linux/lib/libcublas.so.12"}},
		{"pip of conda", map[string]string{"CONDA_PREFIX": "/c"}, "pip",
			[]string{"c/lib/python3.11" + nvidia + "cublas/lib/libcublas.so.12"}},
		{"pip of the user", map[string]string{"HOME": "/h"}, "pip",
			[]string{"h/.local/lib/python3.10" + nvidia + "cu13/lib/libcublas.so.13"}},
		{"newest of pip", map[string]string{"VIRTUAL_ENV": "/v"}, "pip",
			[]string{"v/lib/python3.12" + nvidia + "cu13/lib/libcublas.so.13",
				"v/lib/python3.12" + nvidia + "cu12/lib/libcublas.so.12"}},
		{"inside PyTorch", map[string]string{"VIRTUAL_ENV": "/v"}, "pip",
			[]string{"v/lib/python3.9/site-packages/torch/lib/libcublas.so.11"}},
		{"pip beside PATH", map[string]string{"PATH": "/usr/sbin:bin:/opt/env/bin"}, "pip",
			[]string{"opt/env/lib/python3.12" + nvidia + "cublas/lib/libcublas.so.12"}},
		{"numbers of toolkits", nil, "CUDA toolkit", []string{"usr/local/cuda-12.10/lib64/libcublas.so.12",
			"usr/local/cuda-9/lib64/libcublas.so.12", "usr/local/cuda-12.9/lib64/libcublas.so.12"}},
		{"HPC SDK", nil, "CUDA toolkit",
			[]string{"opt/nvidia/hpc_sdk/Linux_" + arch + "/25.1/math_libs/12.6/lib64/libcublas.so.12"}},
		{"conda of images", nil, "conda", []string{"opt/conda/lib/libcublas.so.12"}},
		{"environment of the working folder that is not active", map[string]string{"PWD": "/w"}, "",
			[]string{"w/.venv/lib/python3.12" + nvidia + "cublas/lib/libcublas.so.12",
				"w/venv/lib/python3.12" + nvidia + "cublas/lib/libcublas.so.12"}},
		{"Python of pyenv that is not in PATH", map[string]string{"PYENV_ROOT": "/p"}, "",
			[]string{"p/versions/3.12.1/lib/python3.12" + nvidia + "cublas/lib/libcublas.so.12"}},
		{"driver folder", nil, "driver folder", []string{"usr/local/nvidia/lib64/libcublas.so.12"}},
		{"setting", map[string]string{"VSETRAIN_CUBLAS": "/own/blas.so"}, "setting",
			[]string{"own/blas.so", "usr/lib/libcublas.so.13"}},
		{"a folder", nil, "", []string{"usr/lib/libcublas.so.12/x"}},
	} {
		files := map[string]string{"etc/ld.so.conf": "include ld.so.conf.d/*.conf # all\n",
			"etc/ld.so.conf.d/a.conf": "# none\n/opt/deep\n"}
		for _, f := range c.files {
			files[f] = ""
		}
		cuda, blas := Search(try.Files(t, files), env(c.env))
		want := "/" + c.files[0]
		if c.from == "" {
			want = ""
		}
		if blas.From != c.from || blas.Path != want {
			t.Errorf("%s: got %q from %q, want %q from %q", c.name, blas.Path, blas.From, want, c.from)
		}
		if missing := blas.Path == ""; missing != (blas.Install != "") || missing != (len(blas.Tried) > 0) {
			t.Errorf("%s: found %q, tried %q, install %q", c.name, blas.Path, blas.Tried, blas.Install)
		}
		if cuda.Path != "" || !strings.Contains(cuda.Missing(), "NVIDIA driver") ||
			!strings.Contains(cuda.Missing(), "VSETRAIN_CUDA_DRIVER") {
			t.Errorf("%s: the driver is %+v: %s", c.name, cuda, cuda.Missing())
		}
	}
}

// The driver is found where systems put it, or where the setting says.
func TestSearchDriver(t *testing.T) {
	for _, path := range []string{"/usr/lib/" + arch + "-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"} {
		cuda, _ := Search(try.Files(t, map[string]string{path: ""}), env(nil))
		if cuda.Path != path || cuda.Install != "" {
			t.Errorf("%s: found %+v", path, cuda)
		}
	}
	cuda, _ := Search(try.Files(t, nil), env(map[string]string{"VSETRAIN_CUDA_DRIVER": "/x/libcuda.so"}))
	if cuda.Path != "/x/libcuda.so" || cuda.From != "setting" {
		t.Errorf("with a setting: %+v", cuda)
	}
}

// The driver belongs to the system: environments, toolkits and the working folder hold none that is loaded, even where
// they are active.
func TestSearchDriverInNoEnvironment(t *testing.T) {
	getenv := env(map[string]string{"PWD": "/w", "VIRTUAL_ENV": "/w/.venv", "CONDA_PREFIX": "/c", "HOME": "/h",
		"PATH": "/w/.venv/bin:/c/bin", "CUDA_HOME": "/cuda"})
	const torch = "/lib/python3.11/site-packages/torch/lib/"
	files := map[string]string{}
	for _, dir := range []string{"w/.venv" + torch, "w/venv" + torch, "c" + torch, "c/lib/", "h/.local" + torch,
		"opt/conda/lib/", "cuda/lib64/", "w/", "w/.venv/bin/", "c/bin/"} {
		files[dir+"libcuda.so.1"], files[dir+"libnvidia-ml.so.1"] = "", ""
	}
	root := try.Files(t, files)
	if cuda, _ := Search(root, getenv); cuda.Path != "" {
		t.Errorf("the driver is %s", cuda.Path)
	}
	if nvml := SearchNVML(root, getenv); nvml.Path != "" {
		t.Errorf("NVML is %s", nvml.Path)
	}
}

// A Python in PATH may be a link into an environment, and that a link too.
func TestSearchFollowsPython(t *testing.T) {
	const file = "/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so.12"
	root := try.Files(t, map[string]string{file: "", "usr/local/bin/x": "", "opt/torch/.venv/bin/y": "",
		"usr/bin/python3.12": ""})
	for link, to := range map[string]string{"usr/local/bin/python3": "/opt/torch/.venv/bin/python3",
		"opt/torch/.venv/bin/python3": "python",
		"opt/torch/.venv/bin/python":  "/usr/bin/python3.12"} {
		try.Do(t, os.Symlink(to, filepath.Join(root, link)))
	}
	_, blas := Search(root, env(map[string]string{"PATH": "/usr/local/bin:/usr/bin"}))
	if blas.Path != file {
		t.Errorf("found %q", blas.Path)
	}
}

// All files that may serve are found, the best first, each once.
func TestSearchFindsOthers(t *testing.T) {
	root := try.Files(t, map[string]string{"usr/lib/libcublas.so.12": "", "usr/lib/libcublas.so.13": "",
		"opt/cuda/lib64/libcublas.so.12":    "",
		"opt/cuda/lib64/stubs/libcuda.so.1": "", "usr/lib/libcuda.so.1": ""})
	cuda, blas := Search(root, env(map[string]string{"LD_LIBRARY_PATH": "/opt/cuda/lib64/stubs:/usr/lib"}))
	if want := []string{"/usr/lib/libcublas.so.13", "/usr/lib/libcublas.so.12",
		"/opt/cuda/lib64/libcublas.so.12"}; !slices.Equal(blas.Paths(), want) {
		t.Errorf("cuBLAS in %q, want %q", blas.Paths(), want)
	}
	if want := []string{"/opt/cuda/lib64/stubs/libcuda.so.1", "/usr/lib/libcuda.so.1"}; !slices.Equal(cuda.Paths(),
		want) {
		t.Errorf("the driver in %q, want %q", cuda.Paths(), want)
	}
}

// A library that is turned off is not found, and says why.
func TestSearchNone(t *testing.T) {
	_, blas := Search(try.Files(t, map[string]string{"usr/lib/libcublas.so.12": ""}),
		env(map[string]string{"VSETRAIN_CUBLAS": "none"}))
	if blas.Path != "" || blas.Paths() != nil || blas.Missing() != "cuBLAS is turned off by VSETRAIN_CUBLAS=none" {
		t.Errorf("found %q, and says %q", blas.Path, blas.Missing())
	}
}

// NCCL is found where cuBLAS is, in folders of its own.
func TestSearchNCCL(t *testing.T) {
	for _, path := range []string{"/usr/lib/" + arch + "-linux-gnu/libnccl.so.2", "/opt/conda/lib/libnccl.so.2",
		"/usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/nvidia/hpc_sdk/Linux_" + arch + "/25.1/comm_libs/12.6/nccl/lib/libnccl.so.2"} {
		lib := SearchNCCL(try.Files(t, map[string]string{path: ""}), env(nil))
		if lib.Path != path || lib.Install != "" {
			t.Errorf("%s: found %+v", path, lib)
		}
	}
}

// What NCCL reads of the environment is what the user set, and for fast sums no algorithm is chosen.
func TestNCCLEnvironment(t *testing.T) {
	for fast, want := range map[bool]string{false: "GRAPH_REGISTER=0 NVLS_ENABLE=0 PROTO=Simple RUNTIME_CONNECT=0",
		true: "GRAPH_REGISTER=0 RUNTIME_CONNECT=0"} {
		var set []string
		err := setNCCL(fast, func(name string) (string, bool) { return "", name == "NCCL_ALGO" },
			func(name, value string) error {
				set = append(set, strings.TrimPrefix(name, "NCCL_")+"="+value)
				return nil
			})
		slices.Sort(set)
		if got := strings.Join(set, " "); got != want || err != nil {
			t.Errorf("fast %t: %s, expected %s: %v", fast, got, want, err)
		}
	}
}
