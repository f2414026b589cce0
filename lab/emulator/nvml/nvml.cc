// The part of NVML that vsetrain calls, for the GPUs of the emulated driver. It numbers them the other way round than
// the driver does, as NVML numbers those that CUDA_VISIBLE_DEVICES hides too: only UUID and bus tell which is which.
// EMULATED_NVML_USED (bytes of GPU 0), EMULATED_NVML_BUSY (per cent), EMULATED_NVML_LOST and EMULATED_NVML_MIG (the
// first GPU is a part of one, which has its own name and tells its memory alone) in the environment of the process are
// read with every call.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
enum { kOK = 0, kNotInitialized = 1, kInvalid = 2, kNotSupported = 3, kNotFound = 6, kTooSmall = 7, kLost = 15 };
int started;
long of(const char* name, long otherwise) {
  const char* value = getenv(name);
  return value && *value ? atol(value) : otherwise;
}
bool mig(void* gpu) { return gpu == (void*)2 && of("EMULATED_NVML_MIG", 0); }
int ready(void* gpu) {
  return !started                          ? kNotInitialized
         : gpu != (void*)1 && gpu != (void*)2 ? kInvalid
         : of("EMULATED_NVML_LOST", 0)     ? kLost
                                           : kOK;
}
}  // namespace

extern "C" {
struct Memory { unsigned long long total, free, used; };
struct Utilization { unsigned gpu, memory; };
struct Process { unsigned pid; unsigned long long used; unsigned instance, part; };

int nvmlInit_v2() { return started++, kOK; }
int nvmlShutdown() { return started ? (started--, kOK) : kNotInitialized; }
int nvmlSystemGetDriverVersion(char* text, unsigned n) { return snprintf(text, n, "580.00 emulated"), kOK; }
// Handle 2 is the driver's GPU 0, handle 1 its GPU 1.
int nvmlDeviceGetHandleByUUID(const char* name, void** gpu) {
  if (!started) return kNotInitialized;
  const char* first = "e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee00";
  const char* second = "e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee01";
  if (!strcmp(name + 4, first) && !strncmp(name, mig((void*)2) ? "MIG-" : "GPU-", 4)) return *gpu = (void*)2, kOK;
  if (!strcmp(name + 4, second) && !strncmp(name, "GPU-", 4)) return *gpu = (void*)1, kOK;
  return kNotFound;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** gpu) {
  if (!strcmp(bus, "0000:10:00.0")) return *gpu = (void*)2, kOK;
  if (!strcmp(bus, "0000:11:00.0")) return *gpu = (void*)1, kOK;
  return kNotFound;
}
int nvmlDeviceGetMemoryInfo(void* gpu, Memory* m) {
  if (int r = ready(gpu)) return r;
  m->total = 4ull << 30;
  m->used = gpu == (void*)2 ? of("EMULATED_NVML_USED", 1000000000) : 5;
  m->free = m->total - m->used;
  return kOK;
}
int nvmlDeviceGetUtilizationRates(void* gpu, Utilization* u) {
  if (int r = ready(gpu)) return r;
  if (mig(gpu)) return kNotSupported;
  *u = {(unsigned)of("EMULATED_NVML_BUSY", 87), 12};
  return kOK;
}
#ifndef LARGER_PROCESSES  // and no temperature either, as a later NVML may
int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
  if (int r = ready(gpu)) return r;
  return mig(gpu) || sensor ? kNotSupported : (*celsius = 41, kOK);
}
#endif
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
  if (int r = ready(gpu)) return r;
  return mig(gpu) ? kNotSupported : (*milliwatts = 312000, kOK);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* gpu, unsigned* n, Process* all) {
  if (int r = ready(gpu)) return r;
  // This process is listed while it has a context, under its number outside of the container.
  const Process found[] = {{4242, 700000000, 0, 0}, {812345, 300000000, 0, 0}};
  unsigned room = *n;
  *n = getenv("EMULATED_CUDA_CONTEXT") ? 2 : 1;
  for (unsigned i = 0; i < *n && i < room; i++) all[i] = found[i];
  return room < *n ? kTooSmall : kOK;
}
#ifdef LARGER_PROCESSES  // as drivers 535.43 to 535.86
int nvmlDeviceGetConfComputeMemSizeInfo() { return kNotSupported; }
#endif
}
