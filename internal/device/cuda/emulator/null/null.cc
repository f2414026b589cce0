// A libcuda and cuBLAS that compute nothing: every call that a GPU would take succeeds at once, and is counted. With it the
// program runs at full size in seconds, which shows how many kernels a step starts, on which grids, with how much memory, and
// what the host does for it. What a step computes is zero.
//
// A size that a GPU refuses (a grid, memory beyond what there is, a leading dimension) is refused here too. Calls inside a
// recording are counted as nodes of its graph.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

typedef int Result;
typedef uint64_t Address;
enum { kOK = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kNotFound = 500, kNotInitialized = 1 /* of cuBLAS */ };

namespace {
struct Function { std::string name; };
struct Module { std::map<std::string, Function> functions; };
struct Graph { std::map<std::string, long> nodes; };
typedef std::map<std::string, long> Counts;

// Counts since null_reset: launches, products, copies, fills, uploads, downloads (calls outside recordings), recordings, replays,
// nodes (of the largest graph), sent (bytes from the host), peak (bytes of device memory), grid (blocks of the largest), modules.
Counts counts;
Graph largest;         // the recording with the most nodes
Graph* capture;        // the recording that is being made
size_t used;           // bytes of device memory
size_t total = 143771ull << 20;
Address next_address = 0x700000000000ull;
std::map<Address, size_t> memory;

void most(const char* what, long n) { counts[what] = std::max(counts[what], n); }
long nodes(const Graph& g) {
  long n = 0;
  for (auto& k : g.nodes) n += k.second;
  return n;
}
// done counts a call, as a node where a recording is being made.
Result done(const char* what, const std::string& node) {
  if (capture) capture->nodes[node]++;
  else counts[what]++;
  return kOK;
}
}  // namespace

extern "C" {
long null_count(const char* name) {
  auto it = counts.find(name);
  return it == counts.end() ? 0 : it->second;
}
// null_node is the number of nodes of a kind in the largest recording; null_node_at its kind number i, nullptr behind the last.
long null_node(const char* name) { return largest.nodes.count(name) ? largest.nodes[name] : 0; }
const char* null_node_at(long i) {
  for (auto& k : largest.nodes)
    if (i-- == 0) return k.first.c_str();
  return nullptr;
}
void null_reset() { counts.clear(), largest.nodes.clear(), counts["peak"] = (long)used; }
void null_memory(long bytes) { total = bytes; }

Result cuInit(unsigned) { return kOK; }
Result cuDriverGetVersion(int* v) { return *v = 13000, kOK; }
Result cuDeviceGetCount(int* n) { return *n = 1, kOK; }
Result cuDeviceGet(int* d, int i) { return *d = i, kOK; }
Result cuDeviceGetName(char* name, int length, int) { return strncpy(name, "null GPU", length), kOK; }
Result cuDeviceGetAttribute(int* v, int attribute, int) { return *v = attribute == 75 ? 9 : attribute == 16 ? 132 : attribute == 97 ? 227 << 10 : 0, kOK; }
Result cuDeviceTotalMem_v2(size_t* n, int) { return *n = total, kOK; }
Result cuDevicePrimaryCtxRetain(void** c, int) { return *c = &counts, kOK; }
Result cuDevicePrimaryCtxRelease_v2(int) { return kOK; }
Result cuCtxSetCurrent(void*) { return kOK; }
Result cuMemGetInfo_v2(size_t* available, size_t* all) { return *all = total, *available = total - std::min(total, used), kOK; }
Result cuMemAlloc_v2(Address* p, size_t n) {
  if (capture || n == 0) return kInvalidValue;
  if (used + n > total) return kOutOfMemory;
  memory[*p = next_address] = n;
  next_address += (n + 511) / 256 * 256;
  used += n;
  most("peak", (long)used);
  return kOK;
}
Result cuMemFree_v2(Address p) {
  auto it = memory.find(p);
  if (capture || it == memory.end()) return kInvalidValue;
  used -= it->second;
  memory.erase(it);
  return kOK;
}
Result cuMemHostAlloc(void** p, size_t n, unsigned) { return (*p = calloc(1, n)) ? kOK : kOutOfMemory; }
Result cuMemFreeHost(void* p) { return free(p), kOK; }
Result cuMemcpyHtoDAsync_v2(Address, const void*, size_t n, void*) { return counts["sent"] += (long)n, done("uploads", "upload"); }
Result cuMemcpyDtoHAsync_v2(void* d, Address, size_t n, void*) { return memset(d, 0, n), done("downloads", "download"); }
Result cuMemcpyDtoDAsync_v2(Address, Address, size_t, void*) { return done("copies", "copy"); }
Result cuMemsetD32Async(Address, unsigned, size_t, void*) { return done("fills", "fill"); }

Result cuModuleLoadData(void** m, const void* image) {
  if (capture) return kInvalidValue;  // the driver synchronises, which a recording forbids
  const char* ptx = (const char*)image;
  if (!strstr(ptx, ".version")) return kInvalidImage;
  Module* made = new Module;
  for (const char* at = ptx; (at = strstr(at, ".visible .entry "));) {
    at += strlen(".visible .entry ");
    std::string name(at, strcspn(at, "( \t\r\n"));
    made->functions[name] = {name};
  }
  counts["modules"]++;
  return *m = made, kOK;
}
Result cuModuleUnload(void* m) { return delete (Module*)m, kOK; }
Result cuModuleGetFunction(void** f, void* m, const char* name) {
  auto& all = ((Module*)m)->functions;
  auto it = all.find(name);
  return it == all.end() ? kNotFound : (*f = &it->second, kOK);
}
Result cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void*, void**, void** extra) {
  unsigned long threads = (unsigned long)bx * by * bz;
  if (extra || !threads || threads > 1024 || !gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || shared > 48 << 10) return kInvalidValue;
  most("grid", (long)gx * gy * gz);
  return done("launches", ((Function*)f)->name);
}

Result cuStreamCreate(void** s, unsigned) { return *s = malloc(1), kOK; }
Result cuStreamDestroy_v2(void* s) { return free(s), kOK; }
Result cuStreamSynchronize(void*) { return capture ? kInvalidValue : kOK; }
Result cuEventCreate(void** e, unsigned) { return *e = malloc(1), kOK; }
Result cuEventDestroy_v2(void* e) { return free(e), kOK; }
Result cuEventRecord(void*, void*) { return kOK; }
Result cuEventSynchronize(void*) { return capture ? kInvalidValue : kOK; }
Result cuEventElapsedTime(float* ms, void*, void*) { return *ms = 0, kOK; }
Result cuStreamWaitEvent(void*, void*, unsigned) { return kOK; }
Result cuStreamBeginCapture_v2(void*, int) { return capture ? kInvalidValue : (capture = new Graph, kOK); }
Result cuStreamEndCapture(void*, void** g) {
  if (!capture) return kInvalidValue;
  if (nodes(*capture) > nodes(largest)) largest = *capture;
  most("nodes", nodes(*capture));
  counts["recordings"]++;
  return *g = capture, capture = nullptr, kOK;
}
Result cuGraphInstantiateWithFlags(void** x, void*, unsigned long long) { return *x = malloc(1), kOK; }
Result cuGraphLaunch(void*, void*) { return done("replays", "graph"); }
Result cuGraphDestroy(void* g) { return delete (Graph*)g, kOK; }
Result cuGraphExecDestroy(void* x) { return free(x), kOK; }
Result cuGetErrorName(Result r, const char** s) { return *s = r == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE", kOK; }
Result cuGetErrorString(Result, const char** s) { return *s = "of the null driver", kOK; }

Result cublasCreate_v2(void** h) { return *h = malloc(1), kOK; }
Result cublasDestroy_v2(void* h) { return free(h), kOK; }
Result cublasSetStream_v2(void*, void*) { return kOK; }
Result cublasSetWorkspace_v2(void*, void*, size_t) { return kOK; }
Result cublasGetVersion_v2(void*, int* v) { return *v = 130000, kOK; }
Result cublasGemmStridedBatchedEx(void*, int ta, int tb, int m, int n, int k, const void*, const void*, int, int lda, long long, const void*, int, int ldb, long long, const void*,
                                  void*, int, int ldc, long long, int count, int, int) {
  if (m < 0 || n < 0 || k < 0 || count < 1 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return kInvalidValue;
  return done("products", "product");
}
}
