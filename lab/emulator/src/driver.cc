// The part of libcuda that vsetrain calls, on the host.
//
// A module image is the PTX itself: names and parameters of its entries are read from it and must be the parameters of
// the kernels compiled by g++. Every call from a thread without the context fails, as do sizes that a GPU refuses.
// After a fault in a kernel every call of the process fails with the same error, as on a GPU; cuGetErrorString then
// tells what happened, and the setting mend begins a new process. With defer set to 1, work waits in its stream until
// somebody waits for it or frees memory, so that memory reused too early shows; where it is the host's, the copy from
// it fails. A stream that waits for an event makes another one go on up to that event, no further. With 2 all streams
// but the first of a context work at once, unless they wait for an event. So what two streams do to the same memory
// without an event between them happens in the wrong order with one of the two.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <malloc.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "run.h"

typedef int Result;
typedef uint64_t Address;
enum {
  kOK = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kStub = 34,
  kUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoCompiler = 221,
  kNotFound = 500,
  kIllegalAddress = 700,
  kTooLarge = 720,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalid = 901,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kUnknown = 999,
};

namespace {
typedef std::function<void()> Work;
struct Graph { std::vector<Work> work; };
struct Stream;
// Mark is an event; where it was recorded in a stream that records, taken is the work of that stream before it.
struct Mark {
  std::chrono::steady_clock::time_point at;
  Stream* stream = nullptr;
  long recorded = 0, reached = 0, taken = 0;
  Graph* capture = nullptr;
};
struct Event { std::shared_ptr<Mark> mark = std::make_shared<Mark>(); };
// Item is work, or without work the wait until an event has reached a recording of it in another stream.
struct Item { Work work; std::shared_ptr<Mark> event; Stream* of = nullptr; long recorded = 0; };
// A stream that waits for an event of one that records does so too, into the same graph; joined is how much of its work
// the first one has waited for.
struct Stream {
  std::deque<Item> queue;
  Graph* capture = nullptr;
  bool spoiled = false, first = false, origin = false;
  long taken = 0, joined = 0;
};
struct Function { const emu::Kernel* kernel; int dynamic = 48 << 10; };
struct Module { std::map<std::string, std::vector<int>> entries; std::vector<std::unique_ptr<Function>> functions; };

bool initialized, retained;  // retained: a context, and no stream was made since
long defer_work, no_device, memory = 4ll << 30, driver_version = 13000, devices = 1, capability = 90, stub;
long no_capture;      // recording fails: 1 where it begins, 2 where it ends, 3 where the graph is made ready
long free_waits = 1;  // cuMemFree waits for all work: with 0 it does not, as NVIDIA's reference allows
long no_pinned;       // this allocation of pinned memory fails, counted from now on; 0 never
long lose;            // the GPU is lost at this launch from now on; 0 never
long hang;            // the work of this launch from now on has no end until hang is 0 again; 0 never
long others;          // bytes of memory that other processes hold
long multiprocessors = 4;
long compiler;        // PTX is compiled by a library that the loader is asked for by its name
long mode, taken;     // CUcomputemode, and whether another process holds a GPU that is for one alone
long cooperative = 1;  // kernels whose blocks run at once: 0 none, 2 none recorded, 3 none, though claimed
int context_object, broken;
bool overwritten;  // memory of the host, between the call of a copy from it and its turn
std::string fault;  // of nccl.cc
thread_local void* context;
Stream null_stream;
std::vector<Stream*> streams{&null_stream};
long launches, finished, uploaded;  // kernels started and done, bytes from the host

Stream* stream(void* s) { return s ? (Stream*)s : &null_stream; }
Result ready() { return !initialized ? kNotInitialized : !context ? kInvalidContext : broken ? broken : kOK; }
// Threads of the process call one after the other.
std::recursive_mutex calls;
#define ONE_CALL std::lock_guard<std::recursive_mutex> call_(calls)
#define READY ONE_CALL; if (Result r_ = ready()) return r_
// What a GPU refuses while a stream of the thread records; the recording is spoiled.
bool recording() {
  for (Stream* s : streams)
    if (s->capture) return s->spoiled = true;
  return false;
}
#define NOT_RECORDED if (recording()) return kCaptureUnsupported
// lost counts a launch.
Result lost() { return lose > 0 && --lose == 0 ? broken = kUnknown : kOK; }
// endless is the work of a launch, which hang may make one without end.
Work endless(Work w) {
  if (hang <= 0 || (hang = hang - 1) > 0) return w;
  hang = -1;
  return [w] {
    while (*(volatile long*)&hang) usleep(1000);
    w();
  };
}
void go_ahead();
// flush does the work of a stream, with a mark until the mark has reached a recording.
void flush(Stream* s, Mark* until = nullptr, long recorded = 0) {
  while (!s->queue.empty() && !(until && until->reached >= recorded)) {
    Item i = s->queue.front();
    if (!i.work && i.event->reached < i.recorded) {  // it stays in its place meanwhile: the stream must not go ahead
      flush(i.of, i.event.get(), i.recorded);
      continue;
    }
    s->queue.pop_front();
    if (i.work) i.work();
    go_ahead();
  }
}
// go_ahead lets streams that work at once do so until they have to wait.
void go_ahead() {
  static bool going;
  if (defer_work != 2 || going) return;
  going = true;
  for (size_t i = 0; i < streams.size(); i++)
    for (Stream* s = streams[i]; !s->first && !s->queue.empty();) {
      Item& item = s->queue.front();
      if (!item.work && item.event->reached < item.recorded) break;
      Work w = std::move(item.work);
      s->queue.pop_front();
      if (w) w();
    }
  going = false;
}
void flush_all() { for (size_t i = 0; i < streams.size(); i++) flush(streams[i]); }
Result enqueue(Stream* s, Work w) {
  if (s->capture) s->capture->work.push_back(std::move(w)), s->taken++;
  else if (defer_work) s->queue.push_back({std::move(w)}), go_ahead();
  else w();
  return broken;
}

// entries reads ".visible .entry name( .param .u64 ..., .param .f32 ... )" from PTX text.
std::map<std::string, std::vector<int>> entries(const std::string& ptx) {
  std::map<std::string, std::vector<int>> found;
  const std::string head = ".entry ", param = ".param .";
  for (size_t at = ptx.find(head); at != ptx.npos; at = ptx.find(head, at + 1)) {
    size_t open = ptx.find('(', at), close = ptx.find(')', open);
    std::vector<int>& sizes = found[ptx.substr(at + head.size(), open - at - head.size())];
    for (size_t p = ptx.find(param, open); p < close; p = ptx.find(param, p + 1))
      sizes.push_back(atoi(ptx.c_str() + p + param.size() + 1) / 8);  // u64, u32, f32
  }
  return found;
}
}  // namespace

void emu_enqueue(void* s, std::function<void()> w) { ONE_CALL; enqueue(stream(s), std::move(w)); }
bool emu_ready() { ONE_CALL; return ready() == kOK; }
int emu_gpu;  // of the context
void emu_broken(const std::string& why) { broken = kIllegalAddress, fault = why; }
bool emu_records(void* s) { return stream(s)->capture; }

static long shared = emu::kMostShared;
extern long emu_no_blas, emu_no_half, emu_no_bias, emu_nccl;  // of blas.cc and nccl.cc
static std::map<std::string, long*> settings() {
  return {{"defer", &defer_work},
          {"no_device", &no_device},
          {"memory", &memory},
          {"version", &driver_version},
          {"devices", &devices},
          {"capability", &capability},
          {"stub", &stub},
          {"no_capture", &no_capture},
          {"free_waits", &free_waits},
          {"no_pinned", &no_pinned},
          {"lose", &lose},
          {"hang", &hang},
          {"others", &others},
          {"mode", &mode},
          {"taken", &taken},
          {"compiler", &compiler},
          {"cooperative", &cooperative},
          {"multiprocessors", &multiprocessors},
          {"shared", &shared},
          {"nccl", &emu_nccl},
          {"no_blas", &emu_no_blas},
          {"no_half", &emu_no_half},
          {"no_bias", &emu_no_bias}};
}
// contents is a hash of what memory holds, never 0.
static size_t contents(const void* p, size_t n) { return std::hash<std::string_view>()({(const char*)p, n}) | 1; }
// still is whether memory is there when work comes to it that was given to the GPU before.
static bool still(Address p, size_t n) { return emu::inside(p, n) || (broken = kIllegalAddress, false); }

extern "C" {
// Settings of the emulator, for tests.
int emu_set(const char* name, long value) {
  std::string n = name;
  auto all = settings();
  if (n == "order") emu::order = (emu::Order)value;
  else if (n == "mend") broken = 0, overwritten = false, fault.clear(), emu::forget_failure();
  else if (all.count(n)) *all[n] = value;
  else return -1;
  return 0;
}
long emu_launches() { return launches; }
long emu_uploaded() { return uploaded; }
long emu_finished() { return finished; }

// EMULATED_CUDA_LOSE in the environment is the setting lose, and likewise for the others: for tests of the program, and
// of the same in every order of threads (make test-orders).
Result cuInit(unsigned) {
  if (!initialized) {
    auto from = [](std::string name) {
      std::string upper = "EMULATED_CUDA_" + name;
      for (char& c : upper) c = toupper(c);
      const char* value = getenv(upper.c_str());
      if (value && *value) emu_set(name.c_str(), atol(value));
    };
    for (auto& s : settings()) from(s.first);
    from("order");
  }
  if (stub) return kStub;
  return no_device ? kNoDevice : (initialized = true, kOK);
}
Result cuDriverGetVersion(int* v) { return *v = driver_version, kOK; }
Result cuDeviceGetCount(int* n) { return *n = devices, kOK; }
Result cuDeviceGet(int* d, int i) { return i >= devices ? kInvalidDevice : (*d = i, kOK); }
Result cuDeviceGetName(char* name, int length, int) { return snprintf(name, length, "emulated GPU"), kOK; }
Result cuDeviceGetAttribute(int* v, int attribute, int) {
  *v = attribute == 75   ? capability / 10
       : attribute == 76 ? capability % 10
       : attribute == 16 ? multiprocessors
       : attribute == 20 ? mode
       : attribute == 95 ? cooperative != 0
       : attribute == 97 ? (int)shared
                         : 0;
  return kOK;
}
Result cuDeviceTotalMem_v2(size_t* n, int) { return *n = memory, kOK; }
Result cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; i++) uuid[i] = i == 15 ? device : 0xe0 + i;
  return kOK;
}
Result cuDeviceGetPCIBusId(char* bus, int length, int device) {
  return snprintf(bus, length, "0000:%02x:00.0", 16 + device), kOK;
}
Result cuDevicePrimaryCtxRetain(void** c, int device) {
  ONE_CALL;
  emu_gpu = device;
  return !initialized              ? kNotInitialized
         : mode == 2 || (mode && taken) ? kUnavailable
         : broken                  ? broken
                                   : (retained = true, *c = &context_object, setenv("EMULATED_CUDA_CONTEXT", "1", 1));
}
Result cuDevicePrimaryCtxRelease_v2(int) { return unsetenv("EMULATED_CUDA_CONTEXT"), kOK; }
Result cuCtxSetCurrent(void* c) { return context = c, kOK; }
Result cuCtxSynchronize() { READY; flush_all(); return broken; }
Result cuMemGetInfo_v2(size_t* available, size_t* total) {
  READY;
  *total = memory;
  *available = memory - std::min((size_t)memory, emu::allocated() + others);
  return kOK;
}
Result cuMemAlloc_v2(Address* p, size_t n) {
  READY;
  NOT_RECORDED;
  if (n == 0) return kInvalidValue;
  void* q = emu::allocated() + others + n > (size_t)memory ? nullptr : emu::allocate(n);
  return q ? (*p = (Address)q, kOK) : kOutOfMemory;
}
Result cuMemFree_v2(Address p) {
  ONE_CALL;
  if (!context) return kInvalidContext;
  NOT_RECORDED;
  if (free_waits) flush_all();
  return emu::release((void*)p) ? kOK : kInvalidValue;
}
Result cuMemHostAlloc(void** p, size_t n, unsigned) {
  READY;
  NOT_RECORDED;
  if (no_pinned > 0 && --no_pinned == 0) return kOutOfMemory;
  return (*p = malloc(n)) ? kOK : kOutOfMemory;
}
Result cuMemFreeHost(void* p) {
  ONE_CALL;
  if (free_waits) free(p); else memset(p, 0xff, malloc_usable_size(p));
  return kOK;
}
Result cuMemcpyHtoDAsync_v2(Address d, const void* s, size_t n, void* st) {
  READY;
  if (!emu::inside(d, n)) return kInvalidValue;
  uploaded += n;
  size_t before = defer_work ? contents(s, n) : 0;
  return enqueue(stream(st), [=] {
    if (before && contents(s, n) != before) broken = kIllegalAddress, overwritten = true;
    if (still(d, n)) memcpy((void*)d, s, n);
  });
}
Result cuMemcpyDtoHAsync_v2(void* d, Address s, size_t n, void* st) {
  READY;
  if (!emu::inside(s, n)) return kInvalidValue;
  return enqueue(stream(st), [=] { if (still(s, n)) memcpy(d, (void*)s, n); });
}
Result cuMemcpyDtoDAsync_v2(Address d, Address s, size_t n, void* st) {
  READY;
  if (!emu::inside(s, n) || !emu::inside(d, n)) return kInvalidValue;
  return enqueue(stream(st), [=] { if (still(s, n) && still(d, n)) memmove((void*)d, (void*)s, n); });
}
Result cuMemsetD32Async(Address d, unsigned v, size_t n, void* st) {
  READY;
  if (!emu::inside(d, n * 4) || d % 4) return kInvalidValue;
  return enqueue(stream(st), [=] { for (size_t i = still(d, 4 * n) ? 0 : n; i < n; i++) ((unsigned*)d)[i] = v; });
}
Result cuModuleLoadDataEx(void** m, const void* image, unsigned n, const int* options, void** values) {
  READY;
  NOT_RECORDED;
  if (compiler && !dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_LAZY)) return kNoCompiler;
  std::string ptx = (const char*)image;
  char* log = 0;
  size_t bytes = 0;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == 5) log = (char*)values[i];
    if (options[i] == 6) bytes = (size_t)values[i];
  }
  if (ptx.find(".version") == ptx.npos) {
    if (log) snprintf(log, bytes, "ptxas application ptx input, line 1; fatal : Missing .version directive");
    return kInvalidImage;
  }
  *m = new Module{entries(ptx), {}};
  return kOK;
}
Result cuModuleLoadData(void** m, const void* image) { return cuModuleLoadDataEx(m, image, 0, 0, 0); }
Result cuModuleUnload(void* m) { ONE_CALL; delete (Module*)m; return kOK; }
Result cuModuleGetFunction(void** f, void* m, const char* name) {
  READY;
  auto it = ((Module*)m)->entries.find(name);
  const emu::Kernel* k = emu::find(name);
  if (it == ((Module*)m)->entries.end() || !k) return kNotFound;
  if ((int)it->second.size() != k->count) return kInvalidImage;  // the PTX is of other sources
  for (int i = 0; i < k->count; i++) if (it->second[i] != k->sizes[i]) return kInvalidImage;
  ((Module*)m)->functions.emplace_back(new Function{k});
  *f = ((Module*)m)->functions.back().get();
  return kOK;
}
Result cuFuncSetAttribute(void* f, int attribute, int value) {
  READY;
  if (attribute != 8 || value < 0 || value > shared) return kInvalidValue;
  return ((Function*)f)->dynamic = value, kOK;
}
// Registers bound a real GPU too; how many a kernel takes is not known here.
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void* f, int threads, size_t shared) {
  READY;
  if (threads <= 0 || (int)shared > ((Function*)f)->dynamic) return kInvalidValue;
  return *n = std::min(2048 / threads, (int)((228 << 10) / (shared + 1024))), kOK;
}
static Result start(Function* fn, const emu::Extent& extent, void* st, void** parameters) {
  const emu::Dim &g = extent.grid, &b = extent.block;
  unsigned long threads = (unsigned long)b.x * b.y * b.z;
  if (!threads || threads > 1024 || b.z > 64 || !g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 ||
      g.z > 65535 || (int)extent.shared > fn->dynamic)
    return kInvalidValue;
  launches++;
  if (Result r = lost()) return r;
  auto values = std::make_shared<std::vector<uint64_t>>(fn->kernel->count);  // the driver copies parameters at the call
  for (int i = 0; i < fn->kernel->count; i++) memcpy(&(*values)[i], parameters[i], fn->kernel->sizes[i]);
  Work work = [=] {
    if (broken) return;
    std::vector<void*> p;
    for (auto& v : *values) p.push_back(&v);
    emu::run_grid(*fn->kernel, extent, p.data());
    finished++;
    if (emu::failed()) broken = kIllegalAddress;
  };
  return enqueue(stream(st), stream(st)->capture ? work : endless(work));
}
Result cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void* st, void** parameters, void** extra) {
  READY;
  if (extra) return kInvalidValue;
  return start((Function*)f, {{gx, gy, gz}, {bx, by, bz}, shared, false}, st, parameters);
}
Result cuLaunchCooperativeKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned shared, void* st, void** parameters) {
  READY;
  if (cooperative == 2 && stream(st)->capture) return stream(st)->spoiled = true, kCaptureUnsupported;
  if (!cooperative) return kNotSupported;
  if (cooperative == 3) return kTooLarge;
  int resident = 0;
  if (Result r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, f, bx * by * bz, shared)) return r;
  if ((uint64_t)gx * gy * gz > (uint64_t)resident * multiprocessors) return kTooLarge;
  return start((Function*)f, {{gx, gy, gz}, {bx, by, bz}, shared, true}, st, parameters);
}
Result cuStreamCreate(void** s, unsigned) {
  READY;
  Stream* made = new Stream;
  made->first = retained;
  retained = false;
  streams.push_back(made);
  return *s = made, kOK;
}
Result cuStreamDestroy_v2(void* s) {
  ONE_CALL;
  flush((Stream*)s);
  for (size_t i = 0; i < streams.size(); i++) if (streams[i] == s) streams.erase(streams.begin() + i--);
  delete (Stream*)s;
  return kOK;
}
Result cuStreamSynchronize(void* s) { READY; NOT_RECORDED; flush(stream(s)); return broken; }
Result cuStreamWaitEvent(void* s, void* e, unsigned flags) {
  READY;
  if (flags) return kInvalidValue;
  std::shared_ptr<Mark> m = ((Event*)e)->mark;
  if (m->capture && (!stream(s)->capture || stream(s)->capture == m->capture)) {
    if (!stream(s)->capture) stream(s)->capture = m->capture, stream(s)->taken = stream(s)->joined = 0;
    if (stream(s)->origin) m->stream->joined = std::max(m->stream->joined, m->taken);
    return kOK;
  }
  if (stream(s)->capture)
    return stream(s)->spoiled = true, kCaptureIsolation;  // the event is of no stream that records
  if (m->reached < m->recorded) stream(s)->queue.push_back({nullptr, m, m->stream, m->recorded}), go_ahead();
  return broken;
}
Result cuEventCreate(void** e, unsigned) { READY; *e = new Event; return kOK; }
Result cuEventDestroy_v2(void* e) { ONE_CALL; delete (Event*)e; return kOK; }
Result cuEventRecord(void* e, void* s) {
  READY;
  std::shared_ptr<Mark> m = ((Event*)e)->mark;
  m->stream = stream(s);
  m->capture = m->stream->capture, m->taken = m->stream->taken;
  if (m->capture) return kOK;
  long recorded = ++m->recorded;
  return enqueue(stream(s), [=] { m->at = std::chrono::steady_clock::now(), m->reached = recorded; });
}
Result cuEventSynchronize(void* e) {
  READY;
  NOT_RECORDED;
  std::shared_ptr<Mark> m = ((Event*)e)->mark;
  if (m->reached < m->recorded) flush(m->stream, m.get(), m->recorded);
  return broken;
}
Result cuEventElapsedTime(float* ms, void* a, void* b) {
  return *ms = std::chrono::duration<float, std::milli>(((Event*)b)->mark->at - ((Event*)a)->mark->at).count(), kOK;
}
Result cuStreamBeginCapture_v2(void* s, int) {
  READY;
  if (no_capture == 1) return kNotSupported;
  if (!s || stream(s)->capture) return kCaptureInvalid;
  stream(s)->capture = new Graph;
  stream(s)->spoiled = false, stream(s)->origin = true;
  return kOK;
}
Result cuStreamEndCapture(void* s, void** g) {
  ONE_CALL;
  Stream* st = stream(s);
  if (!st->capture) return kCaptureInvalid;
  *g = st->capture;
  bool unjoined = false;
  for (Stream* other : streams)
    if (other != st && other->capture == st->capture) {
      unjoined |= other->taken > other->joined;
      st->spoiled |= other->spoiled;
      other->capture = nullptr, other->spoiled = false;
    }
  st->capture = nullptr, st->origin = false;
  if (unjoined) return delete (Graph*)*g, *g = nullptr, kCaptureUnjoined;
  if (!st->spoiled && no_capture != 2) return kOK;
  st->spoiled = false;
  delete (Graph*)*g;
  return *g = nullptr, kCaptureInvalid;
}
Result cuGraphInstantiateWithFlags(void** x, void* g, unsigned long long) {
  return no_capture == 3 ? kNotSupported : (*x = new Graph(*(Graph*)g), kOK);
}
Result cuGraphLaunch(void* x, void* s) {
  READY;
  if (Result r = lost()) return r;
  return enqueue(stream(s), endless([x] {
    for (auto& w : ((Graph*)x)->work) w();
  }));
}
Result cuGraphExecDestroy(void* x) { ONE_CALL; delete (Graph*)x; return kOK; }
Result cuGraphDestroy(void* g) { ONE_CALL; delete (Graph*)g; return kOK; }
Result cuGetErrorName(Result r, const char** s) {
  static const std::map<int, const char*> names = {{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                   {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                   {kStub, "CUDA_ERROR_STUB_LIBRARY"},
                                                   {kUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                                   {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                                   {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
                                                   {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
                                                   {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {kNoCompiler, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
                                                   {kNotFound, "CUDA_ERROR_NOT_FOUND"},
                                                   {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {kTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
                                                   {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
                                                   {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                   {kCaptureInvalid, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                   {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
                                                   {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"}};
  auto it = names.find(r);
  return *s = it == names.end() ? "CUDA_ERROR_UNKNOWN" : it->second, kOK;
}
Result cuGetErrorString(Result r, const char** s) {
  const char* why = overwritten      ? "memory of the host was overwritten before it was copied"
                    : !fault.empty() ? fault.c_str()
                                     : emu::failed();
  return *s = r == kIllegalAddress && why ? why : "of the emulated driver", kOK;
}
}
