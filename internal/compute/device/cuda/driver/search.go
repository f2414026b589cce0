package driver

import "vsetrain/internal/system/libraries"

var (
	wantedDriver = libraries.Wanted{Name: "CUDA driver", Setting: "VSETRAIN_CUDA_DRIVER",
		Files: []string{"libcuda.so.1"},
		Install: "install the NVIDIA driver, version 470 or later (Debian: nvidia-driver; Ubuntu: nvidia-driver-570; " +
			"in a container: run it with --gpus all)"}
	wantedBLAS = libraries.Wanted{Name: "cuBLAS", Setting: "VSETRAIN_CUBLAS",
		Files: []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
		Install: "pip install nvidia-cublas-cu12 (for CUDA 13: nvidia-cublas), conda install libcublas, or " +
			"the package libcublas-12-8 of NVIDIA's repository; without it vsetrain's own kernel computes products: " +
			"it is slower and has no TF32"}
	wantedNVML = libraries.Wanted{Name: "NVML", Setting: "VSETRAIN_NVML", Files: []string{"libnvidia-ml.so.1"},
		Install: "it comes with the NVIDIA driver (Debian: libnvidia-ml1; in a container: " +
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility)"}
	wantedNCCL = libraries.Wanted{Name: "NCCL", Setting: "VSETRAIN_NCCL", Files: []string{"libnccl.so.2"},
		Install: "pip install nvidia-nccl-cu12 (for CUDA 13: nvidia-nccl-cu13), conda install nccl, or the package " +
			"libnccl2 of NVIDIA's repository"}
)

// Library is a GPU library and where it was found.
type Library = libraries.Library

// Search looks for the driver and for cuBLAS. If VSETRAIN_CUDA_DRIVER or VSETRAIN_CUBLAS names a file, it looks nowhere
// else. Otherwise it looks in the loader's path (LD_LIBRARY_PATH, ld.so.conf, default folders), and then in other
// folders of the driver. cuBLAS may also come with the CUDA toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda*, /opt/cuda,
// NVIDIA's HPC SDK), with conda, or with pip's nvidia packages of CUDA 11 to 13, including PyTorch's
// (libraries.Folders). In one folder the newest file comes first. Search refuses files that others can change, and
// loads nothing. root is "/" except in tests.
func Search(root string, getenv func(string) string) (cuda, blas Library) {
	in := system(root, getenv)
	cuda = libraries.Find(root, getenv, wantedDriver, in)
	addToolkits(in, "math_libs/*/lib64", "math_libs/lib64")
	in.AddPip("nvidia/cublas/lib", "nvidia/cu*/lib", "torch/lib")
	return cuda, libraries.Find(root, getenv, wantedBLAS, in)
}

// SearchNCCL looks for NCCL in the same places as for cuBLAS, or takes the file that VSETRAIN_NCCL names.
func SearchNCCL(root string, getenv func(string) string) Library {
	in := system(root, getenv)
	addToolkits(in, "comm_libs/nccl/lib", "comm_libs/*/nccl/lib")
	in.AddPip("nvidia/nccl/lib", "torch/lib")
	return libraries.Find(root, getenv, wantedNCCL, in)
}

// addToolkits adds the folders of CUDA toolkits and of conda; hpc are folders within a version of NVIDIA's HPC SDK.
func addToolkits(in *libraries.Folders, hpc ...string) {
	const from = "CUDA toolkit"
	arch := libraries.Arch()
	lib := []string{"lib64", "lib", "targets/" + arch + "-linux/lib"}
	in.AddEnv(from, "CUDA_HOME", lib...)
	in.AddEnv(from, "CUDA_PATH", lib...)
	for _, l := range lib {
		in.Add(from, "/usr/local/cuda/"+l, "/usr/local/cuda-*/"+l, "/opt/cuda/"+l)
	}
	for _, prefix := range []string{"/opt/nvidia/hpc_sdk", "/opt/nvhpc"} {
		for _, inside := range hpc {
			in.Add(from, prefix+"/Linux_"+arch+"/*/"+inside)
		}
	}
	in.AddConda(lib...)
}

// SearchNVML looks for NVIDIA's management library in the same places as for the driver, or takes the file that
// VSETRAIN_NVML names.
func SearchNVML(root string, getenv func(string) string) Library {
	return libraries.Find(root, getenv, wantedNVML, system(root, getenv))
}

// system are the folders where a driver puts its libraries.
func system(root string, getenv func(string) string) *libraries.Folders {
	f := libraries.NewFolders(root, getenv)
	f.AddLoaderPath()
	f.Add("driver folder", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64",
		"/usr/lib/"+libraries.Arch()+"-linux-gnu/nvidia/current", "/run/opengl-driver/lib")
	return f
}
