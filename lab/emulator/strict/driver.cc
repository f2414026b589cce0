#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "strict.h"

struct Event { bool recorded = false; Graph* in = nullptr; Stream* of = nullptr; long at = 0; Clock seen; };
struct Exec { Graph graph; };

Stream* recording;

namespace {
std::recursive_mutex one;
thread_local bool current;  // the thread has the context
std::map<std::string, long> counts, violations;
std::string listed;  // the violations

FILE* out() {
  static FILE* const f = [] {
    const char* name = getenv("STRICT_CUDA_LOG");
    FILE* opened = name ? fopen(name, "a") : nullptr;
    if (opened) setvbuf(opened, nullptr, _IOLBF, 4096);
    return opened;
  }();
  return f;
}

std::map<Address, Allocation> memory;
std::map<char*, size_t> pinned;
std::set<Stream*> streams;
std::set<Event*> events;
std::set<Graph*> graphs;
std::set<Exec*> execs;
size_t used;
long ids;
Clock done;  // what the host knows to be done
const Address kFirst = 0x200000000000, kGap = 1 << 30;
Address next_address = kFirst;

bool is_pinned(const char* p, size_t n) {
  auto it = pinned.upper_bound((char*)p);
  return it != pinned.begin() && (--it, p + n <= it->first + it->second);
}

uint64_t contents(const char* p, size_t n) {
  uint64_t h = 14695981039346656037u, word;
  for (; n >= 8; p += 8, n -= 8) memcpy(&word, p, 8), h = (h ^ word) * 1099511628211u;
  for (; n; p++, n--) h = (h ^ (uint8_t)*p) * 1099511628211u;
  return h;
}

void merge(Clock& to, const Clock& from) {
  for (auto& f : from) to[f.first] = std::max(to[f.first], f.second);
}

// learn is called when the host has waited until a clock: the transfers up to it are over, and only now is what was
// copied to the host there.
void learn(const Clock& clock) {
  merge(done, clock);
  std::vector<Transfer> arrived;
  for (auto& c : clock) {
    std::vector<Transfer> left;
    for (auto& t : c.first->transfers) {
      if (t.at > c.second) {
        left.push_back(t);
        continue;
      }
      if (contents(t.host, t.bytes) != t.contents)
        wrong("memory of the host changed before its copy was known to be done");
      if (t.down) arrived.push_back(t);
    }
    c.first->transfers.swap(left);
  }
  for (auto& t : arrived) memset(t.host, 0, t.bytes);
}

bool busy() {
  for (Stream* s : streams)
    if (s->given > done[s]) return true;
  return false;
}

// use orders work of a stream after what other streams do with the memory.
void use(Stream* s, Allocation& a, const std::string& what) {
  for (auto& u : a.users)
    if (u.first != s && s->seen[u.first] < u.second && done[u.first] < u.second)
      wrong("%s: another stream uses the memory, and no event comes between", what.c_str());
  a.users[s] = s->given;
}

// allocated is what an allocation takes of a GPU's memory.
size_t allocated(size_t n) {
  const size_t unit = n < 1 << 20 ? 512 : 2 << 20;
  return (n + unit - 1) / unit * unit;
}

// transfer checks a copy between host and device. What comes from the device is NaN until the host has waited for it,
// so memory that is copied from must not be copied to before that, even where the order is right.
Result transfer(const char* what, char* host, Address device, size_t n, Stream* s, bool down) {
  range(what, device, n);
  if (!is_pinned(host, n)) wrong("%s: memory of the host that is not pinned", what);
  if (recording) wrong("%s in a recording", what);
  if (down) memset(host, 0xff, n);
  Result r = work(s, what, {device});
  if (!r && !s->recorded) s->transfers.push_back({s->given, host, n, contents(host, n), down});
  return r;
}
}  // namespace

void count(const std::string& what) { counts[what]++; }

void wrong(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (violations[text]++) return;
  listed += std::string(text) + "\n";
  if (out()) fprintf(out(), "violation %s\n", text);
}

Call::Call(const char* name) : current(::current) {
  one.lock();
  count(name);
  if (!current) wrong("%s on a thread without the context", name);
}
Call::~Call() { one.unlock(); }

bool spoils(const char* name) {
  if (!recording) return false;
  wrong("%s in a recording", name);
  return recording->spoiled = true;
}

Allocation* find(Address p, Address* base) {
  auto it = memory.upper_bound(p);
  if (it == memory.begin() || (--it, p - it->first >= it->second.bytes)) return nullptr;
  if (base) *base = it->first;
  return &it->second;
}

void range(const std::string& what, Address p, size_t bytes) {
  Address base = 0;
  Allocation* a = find(p, &base);
  if (!a)
    wrong("%s: an address in no allocation", what.c_str());
  else if (p - base + bytes > a->bytes)
    wrong("%s: %zu bytes beyond an allocation of %zu", what.c_str(), (size_t)(p - base) + bytes - a->bytes, a->bytes);
}

Result work(Stream* s, const std::string& what, const std::vector<Address>& uses) {
  if (!streams.count(s)) return wrong("%s in no stream", what.c_str()), kInvalidHandle;
  if (s->recorded) {
    if (s->spoiled) return kCaptureInvalid;
    Address base;
    for (Address p : uses)
      if (Allocation* a = find(p, &base)) s->recorded->uses.insert({base, {a->id, what}});
    return kOK;
  }
  if (recording) wrong("%s in another stream than the one that records", what.c_str());
  s->seen[s] = ++s->given;
  for (Address p : uses)
    if (Allocation* a = find(p)) use(s, *a, what);
  return kOK;
}

// strict_violations returns the violations so far, one a line, and forgets them.
API const char* strict_violations() {
  static std::string told;
  std::lock_guard<std::recursive_mutex> lock(one);
  told.swap(listed);
  listed.clear(), violations.clear();
  return told.c_str();
}

API Result cuInit(unsigned) { return kOK; }
API Result cuDriverGetVersion(int* v) { return *v = 12080, kOK; }
API Result cuDeviceGetCount(int* n) { return *n = 1, kOK; }
API Result cuDeviceGet(int* d, int i) { return i ? kInvalidDevice : (*d = 0, kOK); }
API Result cuDeviceGetName(char* name, int n, int) { return snprintf(name, n, "%s", gpu().name), kOK; }
API Result cuDeviceGetAttribute(int* v, int attribute, int) {
  switch (attribute) {
    case 16: return *v = gpu().multiprocessors, kOK;
    case 20: return *v = 0, kOK;  // shared by all processes
    case 75: return *v = gpu().capability / 10, kOK;
    case 76: return *v = gpu().capability % 10, kOK;
    case 95: return *v = cooperative, kOK;  // launches of blocks that wait for each other
    case 97: return *v = gpu().block_shared, kOK;
  }
  return wrong("attribute %d of a device", attribute), kInvalidValue;
}
API Result cuDeviceTotalMem_v2(size_t* n, int) { return *n = gpu().memory, kOK; }
API Result cuDeviceGetUuid_v2(unsigned char* uuid, int) { return memset(uuid, 0x5e, 16), kOK; }
API Result cuDeviceGetPCIBusId(char* s, int n, int) { return snprintf(s, n, "0000:1b:00.0"), kOK; }
static int retained;
API Result cuDevicePrimaryCtxRetain(void** c, int) {
  std::lock_guard<std::recursive_mutex> lock(one);
  return retained++, *c = &memory, kOK;
}
// Releasing the context the last time ends what the program does: it must have given everything back, and the counts
// are written.
API Result cuDevicePrimaryCtxRelease_v2(int) {
  std::lock_guard<std::recursive_mutex> lock(one);
  if (retained && --retained) return kOK;
  if (size_t n = memory.size()) wrong("the context is released with %zu allocations", n);
  if (size_t n = pinned.size()) wrong("the context is released with %zu allocations of pinned memory", n);
  if (size_t n = streams.size() + events.size() + graphs.size() + execs.size())
    wrong("the context is released with %zu streams, events and graphs", n);
  if (unload_kernels()) wrong("the context is released with modules");
  for (auto& c : counts)
    if (out()) fprintf(out(), "count %s %ld\n", c.first.c_str(), c.second);
  memory.clear(), pinned.clear(), streams.clear(), events.clear(), graphs.clear(), execs.clear(), counts.clear();
  done.clear(), used = 0, recording = nullptr;
  return kOK;
}
API Result cuCtxSetCurrent(void* c) { return current = c, kOK; }

API Result cuMemGetInfo_v2(size_t* available, size_t* total) {
  CALL("cuMemGetInfo");
  return *total = gpu().memory, *available = gpu().memory - used, kOK;
}
API Result cuMemAlloc_v2(Address* p, size_t n) {
  UNRECORDED("cuMemAlloc");
  if (!n) return wrong("cuMemAlloc of no bytes"), kInvalidValue;
  if (used + allocated(n) > gpu().memory) return kOutOfMemory;
  used += allocated(n);
  *p = next_address;
  next_address += (n + kGap) / kGap * kGap + kGap;
  memory[*p] = {n, ++ids, {}};
  return kOK;
}
API Result cuMemFree_v2(Address p) {
  UNRECORDED("cuMemFree");
  auto it = memory.find(p);
  if (it == memory.end()) return wrong("cuMemFree of no allocation"), kInvalidValue;
  if (busy()) wrong("cuMemFree while a stream has work");
  used -= allocated(it->second.bytes);
  return memory.erase(it), kOK;
}
API Result cuMemHostAlloc(char** p, size_t n, unsigned) {
  UNRECORDED("cuMemHostAlloc");
  if (!n) return wrong("cuMemHostAlloc of no bytes"), kInvalidValue;
  if (!(*p = (char*)aligned_alloc(4096, (n + 4095) / 4096 * 4096))) return kOutOfMemory;
  return pinned[*p] = n, kOK;
}
API Result cuMemFreeHost(char* p) {
  UNRECORDED("cuMemFreeHost");
  auto it = pinned.find(p);
  if (it == pinned.end()) return wrong("cuMemFreeHost of no allocation"), kInvalidValue;
  for (Stream* s : streams)
    for (auto& t : s->transfers)
      if (t.host >= p && t.host < p + it->second)
        return wrong("cuMemFreeHost of memory that is being copied"), kInvalidValue;
  return pinned.erase(it), free(p), kOK;
}
API Result cuMemcpyHtoDAsync_v2(Address d, char* s, size_t n, Stream* st) {
  CALL("cuMemcpyHtoDAsync");
  return transfer("cuMemcpyHtoDAsync", s, d, n, st, false);
}
API Result cuMemcpyDtoHAsync_v2(char* d, Address s, size_t n, Stream* st) {
  CALL("cuMemcpyDtoHAsync");
  return transfer("cuMemcpyDtoHAsync", d, s, n, st, true);
}
API Result cuMemcpyDtoDAsync_v2(Address d, Address s, size_t n, Stream* st) {
  CALL("cuMemcpyDtoDAsync");
  range("cuMemcpyDtoDAsync to", d, n), range("cuMemcpyDtoDAsync from", s, n);
  if (d < s + n && s < d + n) wrong("cuMemcpyDtoDAsync of memory that overlaps");
  return work(st, "cuMemcpyDtoDAsync", {d, s});
}
API Result cuMemsetD32Async(Address d, unsigned, size_t n, Stream* st) {
  CALL("cuMemsetD32Async");
  range("cuMemsetD32Async", d, 4 * n);
  if (d % 4 || !n) wrong("cuMemsetD32Async of %zu words, the first at %d bytes behind a multiple of 4", n, int(d % 4));
  return work(st, "cuMemsetD32Async", {d});
}

API Result cuStreamCreate(Stream** s, unsigned flags) {
  CALL("cuStreamCreate");
  if (flags != 1) wrong("cuStreamCreate of a stream that waits for the default stream");
  return streams.insert(*s = new Stream), kOK;
}
API Result cuStreamDestroy_v2(Stream* s) {
  CALL("cuStreamDestroy");
  if (!streams.erase(s)) return wrong("cuStreamDestroy of no stream"), kInvalidHandle;
  if (s->given > done[s]) wrong("cuStreamDestroy of a stream that has work");
  return kOK;  // clocks name it
}
API Result cuStreamSynchronize(Stream* s) {
  CALL("cuStreamSynchronize");
  if (!streams.count(s)) return wrong("cuStreamSynchronize of no stream"), kInvalidHandle;
  if (s->recorded) return spoils("cuStreamSynchronize"), kCaptureUnsupported;
  return learn(s->seen), kOK;
}

API Result cuEventCreate(Event** e, unsigned) {
  CALL("cuEventCreate");
  return events.insert(*e = new Event), kOK;
}
API Result cuEventDestroy_v2(Event* e) {
  CALL("cuEventDestroy");
  if (!events.erase(e)) return wrong("cuEventDestroy of no event"), kInvalidHandle;
  return delete e, kOK;
}
API Result cuEventRecord(Event* e, Stream* s) {
  CALL("cuEventRecord");
  if (!events.count(e) || !streams.count(s)) return wrong("cuEventRecord of no event"), kInvalidHandle;
  return *e = {true, s->recorded, s, s->given, s->seen}, kOK;
}
static Result recorded(const char* name, Event* e) {
  if (!events.count(e)) return wrong("%s of no event", name), kInvalidHandle;
  if (!e->recorded) wrong("%s of an event that was never recorded", name);
  return kOK;
}
API Result cuEventSynchronize(Event* e) {
  CALL("cuEventSynchronize");
  if (Result r = recorded("cuEventSynchronize", e)) return r;
  if (e->in) return wrong("cuEventSynchronize of an event in a recording"), kCaptureUnsupported;
  return learn(e->seen), kOK;
}
API Result cuStreamWaitEvent(Stream* s, Event* e, unsigned) {
  CALL("cuStreamWaitEvent");
  if (Result r = recorded("cuStreamWaitEvent", e)) return r;
  if (s->recorded != e->in) return wrong("cuStreamWaitEvent across a recording"), kCaptureUnsupported;
  s->given++, merge(s->seen, e->seen);
  return s->seen[s] = s->given, kOK;
}
API Result cuEventElapsedTime(float* ms, Event* from, Event* to) {
  CALL("cuEventElapsedTime");
  for (Event* e : {from, to}) {
    if (Result r = recorded("cuEventElapsedTime", e)) return r;
    if (done[e->of] < e->at) return wrong("cuEventElapsedTime of an event that nobody waited for"), kNotReady;
  }
  return *ms = 0.01f, kOK;
}

API Result cuStreamBeginCapture_v2(Stream* s, int mode) {
  CALL("cuStreamBeginCapture");
  if (mode != 1) wrong("cuStreamBeginCapture that concerns other threads");
  if (recording || !streams.count(s)) return wrong("cuStreamBeginCapture while a stream records"), kInvalidValue;
  recording = s, s->recorded = new Graph, s->spoiled = false;
  return kOK;
}
API Result cuStreamEndCapture(Stream* s, Graph** g) {
  CALL("cuStreamEndCapture");
  if (!s->recorded) return wrong("cuStreamEndCapture of a stream that does not record"), kInvalidValue;
  *g = s->spoiled ? nullptr : s->recorded;
  recording = nullptr, s->recorded = nullptr;
  return s->spoiled ? kCaptureInvalid : (graphs.insert(*g), kOK);
}
API Result cuGraphInstantiateWithFlags(Exec** x, Graph* g, unsigned long long) {
  UNRECORDED("cuGraphInstantiate");
  if (!graphs.count(g)) return wrong("cuGraphInstantiate of no graph"), kInvalidHandle;
  return execs.insert(*x = new Exec{*g}), kOK;
}
API Result cuGraphLaunch(Exec* x, Stream* s) {
  UNRECORDED("cuGraphLaunch");
  if (!execs.count(x)) return wrong("cuGraphLaunch of no graph"), kInvalidHandle;
  std::vector<Address> uses;
  for (auto& u : x->graph.uses) {
    Allocation* a = find(u.first);
    if (!a || a->id != u.second.id) wrong("a graph uses memory that was freed: %s", u.second.what.c_str());
    uses.push_back(u.first);
  }
  return work(s, "cuGraphLaunch", uses);
}
API Result cuGraphDestroy(Graph* g) {
  UNRECORDED("cuGraphDestroy");
  if (!graphs.erase(g)) return wrong("cuGraphDestroy of no graph"), kInvalidHandle;
  return delete g, kOK;
}
API Result cuGraphExecDestroy(Exec* x) {
  UNRECORDED("cuGraphExecDestroy");
  if (!execs.erase(x)) return wrong("cuGraphExecDestroy of no graph"), kInvalidHandle;
  return delete x, kOK;
}

API Result cuGetErrorName(Result r, const char** s) {
  return *s = r == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR", kOK;
}
API Result cuGetErrorString(Result, const char** s) { return *s = "of the strict driver", kOK; }
