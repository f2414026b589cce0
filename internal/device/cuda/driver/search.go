package driver

import "vsetrain/internal/libraries"

var (
	wantedDriver = libraries.Wanted{Name: "CUDA driver", Setting: "VSETRAIN_CUDA_DRIVER",
		Files: []string{"libcuda.so.1"},
		Install: "install the NVIDIA driver, version 470 or later (Debian: nvidia-driver; Ubuntu: nvidia-driver-570; " +
			"in a container: run it with --gpus all)"}
	wantedBLAS = libraries.Wanted{Name: "cuBLAS", Setting: "VSETRAIN_CUBLAS",
		Files: []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
		Install: "pip install nvidia-cublas-cu12 (for CUDA 13: nvidia-cublas), conda install libcublas, or " +
			"the package libcublas-12-8 of NVIDIA's repository; without it products run on vsetrain's own kernel, " +
			"which is slower and knows no TF32"}
	wantedNVML = libraries.Wanted{Name: "NVML", Setting: "VSETRAIN_NVML", Files: []string{"libnvidia-ml.so.1"},
		Install: "it comes with the NVIDIA driver (Debian: libnvidia-ml1; in a container: " +
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility)"}
)

// Library is a GPU library and where it was found.
type Library = libraries.Library

// Search looks for the driver and for cuBLAS, in this order: the file that VSETRAIN_CUDA_DRIVER or VSETRAIN_CUBLAS
// names, and then no other; the loader's path (LD_LIBRARY_PATH, ld.so.conf, default folders); folders of the driver
// that no loader knows; the CUDA toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda*, /opt/cuda, NVIDIA's HPC SDK); conda
// (CONDA_PREFIX, /opt/conda); and pip's nvidia packages of CUDA 11 to 13, PyTorch's among them (VIRTUAL_ENV, .venv of
// the working folder, CONDA_PREFIX, the user's, those beside a bin in PATH and beside what python and python3 in PATH
// are links to, PYENV_ROOT, the system's). Of several files in one folder the newest comes first. It looks for files
// only and loads nothing. root is "/" except in tests.
func Search(root string, getenv func(string) string) (cuda, blas Library) {
	in := folders(root, getenv)
	return libraries.Find(root, getenv, wantedDriver, in), libraries.Find(root, getenv, wantedBLAS, in)
}

// SearchNVML looks for NVIDIA's management library in the same places, or takes the file that VSETRAIN_NVML names.
func SearchNVML(root string, getenv func(string) string) Library {
	return libraries.Find(root, getenv, wantedNVML, folders(root, getenv))
}

func folders(root string, getenv func(string) string) *libraries.Folders {
	f, arch := libraries.NewFolders(root, getenv), libraries.Arch()
	f.AddLoaderPath()
	f.Add("driver folder", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/lib/"+arch+"-linux-gnu/nvidia/current",
		"/run/opengl-driver/lib")
	lib := []string{"lib64", "lib", "targets/" + arch + "-linux/lib"}
	f.AddEnv("CUDA toolkit", "CUDA_HOME", lib...)
	f.AddEnv("CUDA toolkit", "CUDA_PATH", lib...)
	for _, l := range lib {
		f.Add("CUDA toolkit", "/usr/local/cuda/"+l, "/usr/local/cuda-*/"+l, "/opt/cuda/"+l)
	}
	for _, prefix := range []string{"/opt/nvidia/hpc_sdk", "/opt/nvhpc"} {
		f.Add("CUDA toolkit", prefix+"/Linux_"+arch+"/*/math_libs/*/lib64", prefix+"/Linux_"+arch+"/*/math_libs/lib64")
	}
	f.AddEnv("conda", "CONDA_PREFIX", lib...)
	f.Add("conda", "/opt/conda/lib")
	f.AddPip("nvidia/cublas/lib", "nvidia/cu*/lib", "torch/lib")
	return f
}
