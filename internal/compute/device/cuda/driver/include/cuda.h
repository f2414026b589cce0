/*
The part of the CUDA driver's C interface that the package gorgonia.org/cu names, so that the program with the build tag
vsecu can be built where no CUDA toolkit is installed (docs/cuda.md). It declares and defines nothing else; numbers,
layouts and the suffixes of revised entries are those of every libcuda since CUDA 11.4.

Reference: NVIDIA, "CUDA Driver API", https://docs.nvidia.com/cuda/cuda-driver-api.
*/
#ifndef VSETRAIN_CUDA_H
#define VSETRAIN_CUDA_H

#include <stdint.h>
#include <stdlib.h>

/* Handles. */
typedef int CUdevice; typedef unsigned long long CUdeviceptr;
typedef uint32_t cuuint32_t;
typedef struct CUarray_st *CUarray;
typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUmod_st *CUmodule;
typedef struct CUstream_st *CUstream;
typedef struct CUsurfref_st *CUsurfref;
typedef struct CUtexref_st *CUtexref;
typedef struct { char bytes[16]; } CUuuid;
typedef void (*CUhostFn)(void *userData);

/* What every call returns. */
typedef enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY,
  CUDA_ERROR_NOT_INITIALIZED,
  CUDA_ERROR_DEINITIALIZED,
  CUDA_ERROR_PROFILER_DISABLED,
  CUDA_ERROR_PROFILER_NOT_INITIALIZED,
  CUDA_ERROR_PROFILER_ALREADY_STARTED,
  CUDA_ERROR_PROFILER_ALREADY_STOPPED,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT,
  CUDA_ERROR_CONTEXT_ALREADY_CURRENT,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_UNMAP_FAILED,
  CUDA_ERROR_ARRAY_IS_MAPPED,
  CUDA_ERROR_ALREADY_MAPPED,
  CUDA_ERROR_NO_BINARY_FOR_GPU,
  CUDA_ERROR_ALREADY_ACQUIRED,
  CUDA_ERROR_NOT_MAPPED,
  CUDA_ERROR_NOT_MAPPED_AS_ARRAY,
  CUDA_ERROR_NOT_MAPPED_AS_POINTER,
  CUDA_ERROR_ECC_UNCORRECTABLE,
  CUDA_ERROR_UNSUPPORTED_LIMIT,
  CUDA_ERROR_CONTEXT_ALREADY_IN_USE,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
  CUDA_ERROR_INVALID_PTX,
  CUDA_ERROR_INVALID_GRAPHICS_CONTEXT,
  CUDA_ERROR_NVLINK_UNCORRECTABLE,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_FILE_NOT_FOUND,
  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
  CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
  CUDA_ERROR_OPERATING_SYSTEM,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
  CUDA_ERROR_LAUNCH_TIMEOUT,
  CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
  CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
  CUDA_ERROR_CONTEXT_IS_DESTROYED,
  CUDA_ERROR_ASSERT,
  CUDA_ERROR_TOO_MANY_PEERS,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
  CUDA_ERROR_HARDWARE_STACK_ERROR,
  CUDA_ERROR_ILLEGAL_INSTRUCTION,
  CUDA_ERROR_MISALIGNED_ADDRESS,
  CUDA_ERROR_INVALID_ADDRESS_SPACE,
  CUDA_ERROR_INVALID_PC,
  CUDA_ERROR_LAUNCH_FAILED,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED,
  CUDA_ERROR_SYSTEM_NOT_READY,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
  CUDA_ERROR_STREAM_CAPTURE_MERGE,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
  CUDA_ERROR_CAPTURED_EVENT,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
  CUDA_ERROR_TIMEOUT,
  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
  CUDA_ERROR_UNKNOWN = 999
} CUresult;

/* Properties of a device: consecutive from 1, with a gap behind 80. */
#define CU_ATTRIBUTE(name) CU_DEVICE_ATTRIBUTE_##name
typedef enum {
  CU_ATTRIBUTE(MAX_THREADS_PER_BLOCK) = 1,
  CU_ATTRIBUTE(MAX_BLOCK_DIM_X),
  CU_ATTRIBUTE(MAX_BLOCK_DIM_Y),
  CU_ATTRIBUTE(MAX_BLOCK_DIM_Z),
  CU_ATTRIBUTE(MAX_GRID_DIM_X),
  CU_ATTRIBUTE(MAX_GRID_DIM_Y),
  CU_ATTRIBUTE(MAX_GRID_DIM_Z),
  CU_ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK),
  CU_ATTRIBUTE(TOTAL_CONSTANT_MEMORY),
  CU_ATTRIBUTE(WARP_SIZE),
  CU_ATTRIBUTE(MAX_PITCH),
  CU_ATTRIBUTE(MAX_REGISTERS_PER_BLOCK),
  CU_ATTRIBUTE(CLOCK_RATE),
  CU_ATTRIBUTE(TEXTURE_ALIGNMENT),
  CU_ATTRIBUTE(GPU_OVERLAP),
  CU_ATTRIBUTE(MULTIPROCESSOR_COUNT),
  CU_ATTRIBUTE(KERNEL_EXEC_TIMEOUT),
  CU_ATTRIBUTE(INTEGRATED),
  CU_ATTRIBUTE(CAN_MAP_HOST_MEMORY),
  CU_ATTRIBUTE(COMPUTE_MODE),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE1D_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE3D_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE3D_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE3D_DEPTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
  CU_ATTRIBUTE(SURFACE_ALIGNMENT),
  CU_ATTRIBUTE(CONCURRENT_KERNELS),
  CU_ATTRIBUTE(ECC_ENABLED),
  CU_ATTRIBUTE(PCI_BUS_ID),
  CU_ATTRIBUTE(PCI_DEVICE_ID),
  CU_ATTRIBUTE(TCC_DRIVER),
  CU_ATTRIBUTE(MEMORY_CLOCK_RATE),
  CU_ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH),
  CU_ATTRIBUTE(L2_CACHE_SIZE),
  CU_ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR),
  CU_ATTRIBUTE(ASYNC_ENGINE_COUNT),
  CU_ATTRIBUTE(UNIFIED_ADDRESSING),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
  CU_ATTRIBUTE(CAN_TEX2D_GATHER),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_GATHER_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE),
  CU_ATTRIBUTE(PCI_DOMAIN_ID),
  CU_ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
  CU_ATTRIBUTE(MAXIMUM_SURFACE1D_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACE2D_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACE2D_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_SURFACE3D_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACE3D_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_SURFACE3D_DEPTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACE1D_LAYERED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACE1D_LAYERED_LAYERS),
  CU_ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_LAYERS),
  CU_ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE1D_LINEAR_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_PITCH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT),
  CU_ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR),
  CU_ATTRIBUTE(COMPUTE_CAPABILITY_MINOR),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
  CU_ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED),
  CU_ATTRIBUTE(GLOBAL_L1_CACHE_SUPPORTED),
  CU_ATTRIBUTE(LOCAL_L1_CACHE_SUPPORTED),
  CU_ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
  CU_ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR),
  CU_ATTRIBUTE(MANAGED_MEMORY),
  CU_ATTRIBUTE(MULTI_GPU_BOARD),
  CU_ATTRIBUTE(MULTI_GPU_BOARD_GROUP_ID),
  CU_ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED),
  CU_ATTRIBUTE(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO),
  CU_ATTRIBUTE(PAGEABLE_MEMORY_ACCESS),
  CU_ATTRIBUTE(CONCURRENT_MANAGED_ACCESS),
  CU_ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED),
  CU_ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
  /* other names of the above */
  CU_ATTRIBUTE(SHARED_MEMORY_PER_BLOCK) = 8,
  CU_ATTRIBUTE(REGISTERS_PER_BLOCK) = 12,
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_ARRAY_WIDTH) = 27,
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_ARRAY_HEIGHT),
  CU_ATTRIBUTE(MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES)
} CUdevice_attribute;

typedef enum {
  CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
  CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
  CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
} CUdevice_P2PAttribute;
typedef enum {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
  CU_FUNC_ATTRIBUTE_NUM_REGS,
  CU_FUNC_ATTRIBUTE_PTX_VERSION,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA
} CUfunction_attribute;
typedef enum {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
  CU_POINTER_ATTRIBUTE_HOST_POINTER,
  CU_POINTER_ATTRIBUTE_P2P_TOKENS,
  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
  CU_POINTER_ATTRIBUTE_BUFFER_ID,
  CU_POINTER_ATTRIBUTE_IS_MANAGED
} CUpointer_attribute;

/* Flags and choices. */
enum {
  CU_CTX_SCHED_AUTO = 0,
  CU_CTX_SCHED_SPIN = 1,
  CU_CTX_SCHED_YIELD = 2,
  CU_CTX_SCHED_BLOCKING_SYNC = 4,
  CU_CTX_SCHED_MASK = 7,
  CU_CTX_MAP_HOST = 8,
  CU_CTX_LMEM_RESIZE_TO_MAX = 16,
  CU_CTX_FLAGS_MASK = 31,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_BLOCKING_SYNC = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4,
  CU_STREAM_DEFAULT = 0,
  CU_STREAM_NON_BLOCKING = 1,
  CU_MEM_ATTACH_GLOBAL = 1,
  CU_MEM_ATTACH_HOST = 2,
  CU_MEM_ATTACH_SINGLE = 4,
  CU_OCCUPANCY_DEFAULT = 0,
  CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 1,
  CU_TRSF_READ_AS_INTEGER = 1,
  CU_TRSF_NORMALIZED_COORDINATES = 2
};
typedef enum {
  CU_FUNC_CACHE_PREFER_NONE,
  CU_FUNC_CACHE_PREFER_SHARED,
  CU_FUNC_CACHE_PREFER_L1,
  CU_FUNC_CACHE_PREFER_EQUAL
} CUfunc_cache;
typedef enum {
  CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE,
  CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE,
  CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
} CUsharedconfig;
typedef enum {
  CU_LIMIT_STACK_SIZE,
  CU_LIMIT_PRINTF_FIFO_SIZE,
  CU_LIMIT_MALLOC_HEAP_SIZE,
  CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH,
  CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
} CUlimit;
typedef enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_UNIFIED } CUmemorytype;
typedef enum {
  CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
  CU_MEM_ADVISE_UNSET_READ_MOSTLY,
  CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
  CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
  CU_MEM_ADVISE_SET_ACCESSED_BY,
  CU_MEM_ADVISE_UNSET_ACCESSED_BY
} CUmem_advise;
typedef enum {
  CU_AD_FORMAT_UNSIGNED_INT8 = 1,
  CU_AD_FORMAT_UNSIGNED_INT16,
  CU_AD_FORMAT_UNSIGNED_INT32,
  CU_AD_FORMAT_SIGNED_INT8 = 8,
  CU_AD_FORMAT_SIGNED_INT16,
  CU_AD_FORMAT_SIGNED_INT32,
  CU_AD_FORMAT_HALF = 16,
  CU_AD_FORMAT_FLOAT = 32
} CUarray_format;
typedef enum {
  CU_TR_ADDRESS_MODE_WRAP,
  CU_TR_ADDRESS_MODE_CLAMP,
  CU_TR_ADDRESS_MODE_MIRROR,
  CU_TR_ADDRESS_MODE_BORDER
} CUaddress_mode;
typedef enum { CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR } CUfilter_mode;

/* The compiler of PTX. */
typedef enum {
  CU_JIT_MAX_REGISTERS,
  CU_JIT_THREADS_PER_BLOCK,
  CU_JIT_WALL_TIME,
  CU_JIT_INFO_LOG_BUFFER,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
  CU_JIT_ERROR_LOG_BUFFER,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
  CU_JIT_OPTIMIZATION_LEVEL,
  CU_JIT_TARGET_FROM_CUCONTEXT,
  CU_JIT_TARGET,
  CU_JIT_FALLBACK_STRATEGY,
  CU_JIT_GENERATE_DEBUG_INFO,
  CU_JIT_LOG_VERBOSE,
  CU_JIT_GENERATE_LINE_INFO,
  CU_JIT_CACHE_MODE
} CUjit_option;
typedef enum {
  CU_JIT_INPUT_CUBIN,
  CU_JIT_INPUT_PTX,
  CU_JIT_INPUT_FATBINARY,
  CU_JIT_INPUT_OBJECT,
  CU_JIT_INPUT_LIBRARY
} CUjitInputType;
enum { CU_PREFER_PTX, CU_PREFER_BINARY };
enum { CU_JIT_CACHE_OPTION_NONE, CU_JIT_CACHE_OPTION_CG, CU_JIT_CACHE_OPTION_CA };
enum {
  CU_TARGET_COMPUTE_30 = 30,
  CU_TARGET_COMPUTE_32 = 32,
  CU_TARGET_COMPUTE_35 = 35,
  CU_TARGET_COMPUTE_37 = 37,
  CU_TARGET_COMPUTE_50 = 50,
  CU_TARGET_COMPUTE_52 = 52,
  CU_TARGET_COMPUTE_53 = 53,
  CU_TARGET_COMPUTE_60 = 60,
  CU_TARGET_COMPUTE_61 = 61,
  CU_TARGET_COMPUTE_62 = 62
};

/* Arguments that are passed as structures. */
typedef struct { size_t Width, Height; CUarray_format Format; unsigned NumChannels; } CUDA_ARRAY_DESCRIPTOR;
typedef struct {
  size_t Width, Height, Depth;
  CUarray_format Format;
  unsigned NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
typedef struct {
  size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
typedef struct {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef struct {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  CUcontext srcContext;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  CUcontext dstContext;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;
typedef struct {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct { CUhostFn fn; void *userData; } CUDA_HOST_NODE_PARAMS;
typedef struct {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

/* Entries whose meaning changed carry a number; programs call them without it. */
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuCtxCreate cuCtxCreate_v2
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuModuleGetGlobal cuModuleGetGlobal_v2
#define cuLinkCreate cuLinkCreate_v2
#define cuLinkAddData cuLinkAddData_v2
#define cuLinkAddFile cuLinkAddFile_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocPitch cuMemAllocPitch_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoD cuMemcpyDtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoA cuMemcpyDtoA_v2
#define cuMemcpyAtoD cuMemcpyAtoD_v2
#define cuMemcpyHtoA cuMemcpyHtoA_v2
#define cuMemcpyAtoH cuMemcpyAtoH_v2
#define cuMemcpyAtoA cuMemcpyAtoA_v2
#define cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2
#define cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2
#define cuMemcpy2D cuMemcpy2D_v2
#define cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2
#define cuMemcpy2DAsync cuMemcpy2DAsync_v2
#define cuMemcpy3D cuMemcpy3D_v2
#define cuMemcpy3DAsync cuMemcpy3DAsync_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuMemsetD16 cuMemsetD16_v2
#define cuMemsetD32 cuMemsetD32_v2
#define cuMemsetD2D8 cuMemsetD2D8_v2
#define cuMemsetD2D16 cuMemsetD2D16_v2
#define cuMemsetD2D32 cuMemsetD2D32_v2
#define cuArrayCreate cuArrayCreate_v2
#define cuArrayGetDescriptor cuArrayGetDescriptor_v2
#define cuArray3DCreate cuArray3DCreate_v2
#define cuArray3DGetDescriptor cuArray3DGetDescriptor_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuTexRefSetAddress cuTexRefSetAddress_v2
#define cuTexRefSetAddress2D cuTexRefSetAddress2D_v3
#define cuTexRefGetAddress cuTexRefGetAddress_v2

/* Devices. */
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int length, CUdevice d);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice d);
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice d);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d);
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute a, CUdevice from, CUdevice to);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer);
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d);
CUresult cuDevicePrimaryCtxRelease(CUdevice d);
CUresult cuDevicePrimaryCtxReset(CUdevice d);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice d, unsigned flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active);
/* Contexts. */
CUresult cuCtxCreate(CUcontext *c, unsigned flags, CUdevice d);
CUresult cuCtxDestroy(CUcontext c);
CUresult cuCtxPushCurrent(CUcontext c);
CUresult cuCtxPopCurrent(CUcontext *c);
CUresult cuCtxSetCurrent(CUcontext c);
CUresult cuCtxGetCurrent(CUcontext *c);
CUresult cuCtxGetDevice(CUdevice *d);
CUresult cuCtxGetFlags(unsigned *flags);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSetLimit(CUlimit limit, size_t value);
CUresult cuCtxGetLimit(size_t *value, CUlimit limit);
CUresult cuCtxGetCacheConfig(CUfunc_cache *c);
CUresult cuCtxSetCacheConfig(CUfunc_cache c);
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *c);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig c);
CUresult cuCtxGetApiVersion(CUcontext c, unsigned *version);
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);
/* Modules. */
CUresult cuModuleLoad(CUmodule *m, const char *file);
CUresult cuModuleLoadData(CUmodule *m, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values);
CUresult cuModuleLoadFatBinary(CUmodule *m, const void *image);
CUresult cuModuleUnload(CUmodule m);
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name);
CUresult cuModuleGetGlobal(CUdeviceptr *p, size_t *bytes, CUmodule m, const char *name);
CUresult cuModuleGetTexRef(CUtexref *t, CUmodule m, const char *name);
CUresult cuModuleGetSurfRef(CUsurfref *s, CUmodule m, const char *name);
CUresult cuLinkCreate(unsigned n, CUjit_option *options, void **values, CUlinkState *s);
CUresult cuLinkAddData(CUlinkState s, CUjitInputType type, void* data, size_t bytes, const char* name, unsigned n,
                       CUjit_option* options, void** values);
CUresult cuLinkAddFile(CUlinkState s, CUjitInputType type, const char* path, unsigned n, CUjit_option* options,
                       void** values);
CUresult cuLinkComplete(CUlinkState s, void **cubin, size_t *bytes);
CUresult cuLinkDestroy(CUlinkState s);
/* Functions. */
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction f);
CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache c);
CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig c);
CUresult cuLaunchKernel(CUfunction f, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CUstream s, void** params, void** extra);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int blockSize, size_t sharedBytes);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f, int blockSize,
                                                              size_t sharedBytes, unsigned flags);
/* Memory. */
CUresult cuMemGetInfo(size_t *free, size_t *total);
CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes);
CUresult cuMemAllocPitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned element);
CUresult cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned flags);
CUresult cuMemFree(CUdeviceptr p);
CUresult cuMemFreeHost(void *p);
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr p);
CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice d);
CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice d, CUstream s);
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute a, CUdeviceptr p);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr p);
CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s);
CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream s);
CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes);
CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream s);
CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream s);
CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s);
CUresult cuMemcpyDtoA(CUarray dst, size_t at, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyAtoD(CUdeviceptr dst, CUarray src, size_t at, size_t bytes);
CUresult cuMemcpyHtoA(CUarray dst, size_t at, const void *src, size_t bytes);
CUresult cuMemcpyAtoH(void *dst, CUarray src, size_t at, size_t bytes);
CUresult cuMemcpyAtoA(CUarray dst, size_t to, CUarray src, size_t from, size_t bytes);
CUresult cuMemcpyHtoAAsync(CUarray dst, size_t at, const void *src, size_t bytes, CUstream s);
CUresult cuMemcpyAtoHAsync(void *dst, CUarray src, size_t at, size_t bytes, CUstream s);
CUresult cuMemcpy2D(const CUDA_MEMCPY2D *c);
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *c);
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream s);
CUresult cuMemcpy3D(const CUDA_MEMCPY3D *c);
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *c, CUstream s);
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *c);
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream s);
CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n);
CUresult cuMemsetD16(CUdeviceptr p, unsigned short v, size_t n);
CUresult cuMemsetD32(CUdeviceptr p, unsigned v, size_t n);
CUresult cuMemsetD2D8(CUdeviceptr p, size_t pitch, unsigned char v, size_t width, size_t height);
CUresult cuMemsetD2D16(CUdeviceptr p, size_t pitch, unsigned short v, size_t width, size_t height);
CUresult cuMemsetD2D32(CUdeviceptr p, size_t pitch, unsigned v, size_t width, size_t height);
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s);
CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream s);
CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s);
CUresult cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s);
CUresult cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t width, size_t height, CUstream s);
CUresult cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned v, size_t width, size_t height, CUstream s);
/* Arrays. */
CUresult cuArrayCreate(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *d);
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *d, CUarray a);
CUresult cuArrayDestroy(CUarray a);
CUresult cuArray3DCreate(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d);
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray a);
/* Streams and events. */
CUresult cuStreamCreate(CUstream *s, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority);
CUresult cuStreamDestroy(CUstream s);
CUresult cuStreamGetFlags(CUstream s, unsigned *flags);
CUresult cuStreamGetPriority(CUstream s, int *priority);
CUresult cuStreamQuery(CUstream s);
CUresult cuStreamSynchronize(CUstream s);
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags);
CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr p, size_t bytes, unsigned flags);
CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags);
CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags);
CUresult cuEventCreate(CUevent *e, unsigned flags);
CUresult cuEventDestroy(CUevent e);
CUresult cuEventRecord(CUevent e, CUstream s);
CUresult cuEventQuery(CUevent e);
CUresult cuEventSynchronize(CUevent e);
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to);
/* Graphs. */
CUresult cuGraphCreate(CUgraph *g, unsigned flags);
CUresult cuGraphClone(CUgraph *clone, CUgraph g);
CUresult cuGraphDestroy(CUgraph g);
CUresult cuGraphDestroyNode(CUgraphNode n);
CUresult cuGraphExecDestroy(CUgraphExec x);
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n);
CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n);
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n, CUgraph child);
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph g, const CUgraphNode* after, size_t n,
                            const CUDA_HOST_NODE_PARAMS* p);
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph g, const CUgraphNode* after, size_t n,
                              const CUDA_KERNEL_NODE_PARAMS* p);
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph g, const CUgraphNode* after, size_t n, const CUDA_MEMCPY3D* p,
                              CUcontext c);
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph g, const CUgraphNode* after, size_t n,
                              const CUDA_MEMSET_NODE_PARAMS* p, CUcontext c);
CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n);
/* Textures and surfaces. */
CUresult cuTexRefSetArray(CUtexref t, CUarray a, unsigned flags);
CUresult cuTexRefSetAddress(size_t *offset, CUtexref t, CUdeviceptr p, size_t bytes);
CUresult cuTexRefSetAddress2D(CUtexref t, const CUDA_ARRAY_DESCRIPTOR *d, CUdeviceptr p, size_t pitch);
CUresult cuTexRefSetFormat(CUtexref t, CUarray_format f, int components);
CUresult cuTexRefSetAddressMode(CUtexref t, int dim, CUaddress_mode m);
CUresult cuTexRefSetFilterMode(CUtexref t, CUfilter_mode m);
CUresult cuTexRefSetMipmapFilterMode(CUtexref t, CUfilter_mode m);
CUresult cuTexRefSetMipmapLevelBias(CUtexref t, float bias);
CUresult cuTexRefSetMipmapLevelClamp(CUtexref t, float least, float most);
CUresult cuTexRefSetMaxAnisotropy(CUtexref t, unsigned most);
CUresult cuTexRefSetBorderColor(CUtexref t, float *color);
CUresult cuTexRefSetFlags(CUtexref t, unsigned flags);
CUresult cuTexRefGetAddress(CUdeviceptr *p, CUtexref t);
CUresult cuTexRefGetArray(CUarray *a, CUtexref t);
CUresult cuTexRefGetAddressMode(CUaddress_mode *m, CUtexref t, int dim);
CUresult cuTexRefGetFilterMode(CUfilter_mode *m, CUtexref t);
CUresult cuTexRefGetFormat(CUarray_format *f, int *components, CUtexref t);
CUresult cuTexRefGetMaxAnisotropy(int *most, CUtexref t);
CUresult cuTexRefGetBorderColor(float *color, CUtexref t);
CUresult cuTexRefGetFlags(unsigned *flags, CUtexref t);
CUresult cuSurfRefSetArray(CUsurfref s, CUarray a, unsigned flags);
CUresult cuSurfRefGetArray(CUarray *a, CUsurfref s);

#endif
