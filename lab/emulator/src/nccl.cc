// The part of NCCL that vsetrain calls, between processes of one machine, each with its own GPU.
//
// Ranks map a file of /dev/shm, which the id names, each with room for a piece of its values. A collective is work in
// its stream, recorded or not: each rank copies a piece in, all wait, each takes what it needs, sums in the order of
// the ranks, and all wait again. Ranks that make another call, or the same with other sizes, fail with both calls
// named; so does one that waits for two minutes, since no rank does anything long between two collectives of a job. A
// rank that is gone holds the lock of its byte of the file no more: then the others wait until they abort, as on GPUs,
// and ncclCommGetAsyncError says so.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "run.h"

void emu_enqueue(void* stream, std::function<void()> work);
bool emu_ready();
void emu_broken(const std::string& why);
extern int emu_gpu;
long emu_nccl = 22105;  // setting: the version

typedef int Result;
enum { kSuccess, kCudaError, kSystemError, kInternal, kInvalidArgument, kInvalidUsage, kRemoteError };
enum Kind { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter };
typedef struct { char internal[128]; } Id;

namespace {
const int kMostRanks = 16, kFloat = 7, kHalf = 9, kSum = 0;  // kHalf is ncclBfloat16
const size_t kPiece = 1 << 18;  // values of a rank in the file
const int kPatience = 120;      // seconds

struct Call { int kind; long number; size_t n; int root, type; };
struct Rank { std::atomic<long> arrived; std::atomic<int> gpu; Call call; };
struct File { Rank ranks[kMostRanks]; };
struct Comm {
  int rank, ranks, fd;
  File* file;
  size_t bytes;
  long calls = 0, arrived = 0;
  std::atomic<bool> aborted{false}, lost{false};
  float* piece(int r) { return (float*)(file + 1) + r * kPiece; }
};
thread_local std::string said;
Result say(Result r, const std::string& text) { return said = text, r; }

std::string name(const Call& c) {
  static const char* const names[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                      "ncclReduceScatter"};
  std::string s = std::string(names[c.kind]) + " of " + std::to_string(c.n) +
                  (c.type == kHalf ? " values in bfloat16" : " values");
  if (c.kind == kBroadcast || c.kind == kReduce) s += " with root " + std::to_string(c.root);
  return s + " as call " + std::to_string(c.number);
}

// gone is whether a rank that has come has ended: its lock is free.
bool gone(Comm* c, int r) {
  if (!c->file->ranks[r].arrived) return false;
  struct flock l = {};
  l.l_type = F_WRLCK, l.l_whence = SEEK_SET, l.l_start = r, l.l_len = 1;
  return fcntl(c->fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_UNLCK;
}

// meet waits for all ranks, and is false where that has no end.
bool meet(Comm* c) {
  c->file->ranks[c->rank].arrived = ++c->arrived;
  auto began = std::chrono::steady_clock::now();
  for (int r = 0; r < c->ranks; r++)
    for (long turns = 0; c->file->ranks[r].arrived < c->arrived; turns++) {
      if (c->aborted) return false;
      if (turns < 100) {
        std::this_thread::yield();
        continue;
      }
      usleep(c->lost ? 1000 : 100);
      if (turns % 100 == 0 && gone(c, r)) c->lost = true;
      if (!c->lost && std::chrono::steady_clock::now() - began > std::chrono::seconds(kPatience)) {
        emu_broken("rank " + std::to_string(r) + " does not come to " + name(c->file->ranks[c->rank].call));
        return false;
      }
    }
  return true;
}

// agree is whether all ranks make the same call.
bool agree(Comm* c, const Call& call) {
  c->file->ranks[c->rank].call = call;
  if (!meet(c)) return false;
  Call first = c->file->ranks[0].call;
  int other = 0;
  for (int r = c->ranks - 1; r > 0; r--) {
    const Call& x = c->file->ranks[r].call;
    if (x.kind != first.kind || x.n != first.n || x.root != first.root || x.type != first.type ||
        x.number != first.number) other = r;
  }
  std::string what = "rank 0 calls " + name(first) + ", rank " + std::to_string(other) + " " +
                     name(c->file->ranks[other].call);
  if (!meet(c)) return false;  // all have looked
  if (other) emu_broken(what);
  return !other;
}

bool copy_in(Comm* c, const float* from, size_t n) { return memcpy(c->piece(c->rank), from, 4 * n), meet(c); }

// Values are exchanged as float32, of which each may have been bfloat16.
bool take_in(Comm* c, const void* from, size_t at, size_t n, int type) {
  if (type == kFloat) return copy_in(c, (const float*)from + at, n);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)((const uint16_t*)from)[at + i] << 16;
    memcpy(c->piece(c->rank) + i, &bits, 4);
  }
  return meet(c);
}

uint16_t half_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// sum rounds bfloat16 each time that it adds.
void sum(Comm* c, void* to, size_t at, size_t n, int type) {
  for (size_t i = 0; i < n; i++) {
    float s = c->piece(0)[i];
    for (int r = 1; r < c->ranks; r++) {
      s += c->piece(r)[i];
      uint32_t bits = (uint32_t)half_of(s) << 16;
      if (type == kHalf) memcpy(&s, &bits, 4);
    }
    if (type == kHalf)
      ((uint16_t*)to)[at + i] = half_of(s);
    else
      ((float*)to)[at + i] = s;
  }
}

// exchange does the work of a call, piece by piece.
bool exchange(Comm* c, const Call& call, const void* from, void* to) {
  const float* src = (const float*)from;
  float* dst = (float*)to;
  for (size_t at = 0; at < call.n; at += kPiece) {
    size_t n = std::min(kPiece, call.n - at);
    switch (call.kind) {
      case kAllReduce:
      case kReduce:
        if (!take_in(c, from, at, n, call.type)) return false;
        if (call.kind == kAllReduce || call.root == c->rank) sum(c, to, at, n, call.type);
        break;
      case kBroadcast:
        if (!copy_in(c, src + at, n)) return false;
        memcpy(dst + at, c->piece(call.root), 4 * n);
        break;
      case kAllGather:
        if (!copy_in(c, src + at, n)) return false;
        for (int r = 0; r < c->ranks; r++) memcpy(dst + r * call.n + at, c->piece(r), 4 * n);
        break;
      case kReduceScatter:
        for (int r = 0; r < c->ranks; r++) {
          if (!take_in(c, from, r * call.n + at, n, call.type)) return false;
          if (r == c->rank) sum(c, to, at, n, call.type);
          if (!meet(c)) return false;
        }
        continue;
    }
    if (!meet(c)) return false;
  }
  return true;
}

Result start(int kind, const void* src, void* dst, size_t n, int type, int root, Comm* c, void* stream) {
  if (!emu_ready()) return say(kCudaError, "the context is not current on this thread");
  if (!c || c->aborted) return say(kInvalidUsage, "no communicator, or an aborted one");
  bool half = type == kHalf && (kind == kReduce || kind == kReduceScatter);
  if (type != kFloat && !half) return say(kInvalidArgument, "the emulated NCCL knows float32, and sums in bfloat16");
  if (root < 0 || root >= c->ranks) return say(kInvalidArgument, "no such root");
  size_t in = kind == kReduceScatter ? n * c->ranks : n, out = kind == kAllGather ? n * c->ranks : n;
  if (kind == kReduce && root != c->rank) out = 0;
  size_t size = half ? 2 : 4;
  Call call{kind, c->calls, n, root, type};  // the number is counted when its turn comes, which a recording has often
  if (n && (!emu::inside((uint64_t)src, size * in) || !emu::inside((uint64_t)dst, size * out)))
    return say(kInvalidArgument, name(call) + ": memory outside an allocation");
  const char* from = (const char*)src;
  char* to = (char*)dst;
  bool in_place = kind == kAllGather       ? from == to + size * c->rank * n
                  : kind == kReduceScatter ? to == from + size * c->rank * n
                                           : from == to;
  if (!in_place && from < to + size * out && to < from + size * in)
    return say(kInvalidArgument, name(call) + ": memory overlaps other than in place");
  emu_enqueue(stream, [=] {
    Call now = call;
    now.number = ++c->calls;
    if (!emu::inside((uint64_t)src, size * in) || !emu::inside((uint64_t)dst, size * out))
      return emu_broken(name(now) + ": memory that was freed before its turn");
    if (agree(c, now) && exchange(c, now, from, to)) return;
    memset(to, 0xff, size * out);  // NaN
  });
  return kSuccess;
}

std::string path_of(const Id& id) { return "/dev/shm/vsetrain-nccl-" + std::string(id.internal + 4, 32); }
const char kMagic[] = "NCCL";
}  // namespace

extern "C" {
Result ncclGetVersion(int* v) { return *v = emu_nccl, kSuccess; }
const char* ncclGetErrorString(Result r) {
  static const char* const texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                      "invalid argument", "invalid usage",
                                      "remote process exited or there was a network error"};
  return r >= 0 && r <= kRemoteError ? texts[r] : "unknown result code";
}
const char* ncclGetLastError(void*) { return said.c_str(); }
Result ncclGetUniqueId(Id* id) {
  memset(id, 0, sizeof *id);
  memcpy(id->internal, kMagic, 4);
  std::random_device r;
  for (int i = 0; i < 4; i++) snprintf(id->internal + 4 + 8 * i, 9, "%08x", r());
  for (int i = 37; i < 128; i++) id->internal[i] = (char)(i * 7);  // all of it has to arrive
  return kSuccess;
}
Result ncclCommInitRank(Comm** to, int ranks, Id id, int rank) {
  if (!emu_ready()) return say(kCudaError, "the context is not current on this thread");
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) return say(kInvalidArgument, "rank, or ranks");
  bool whole = memcmp(id.internal, kMagic, 4) == 0 && strlen(id.internal) == 36;
  for (int i = 37; i < 128; i++) whole = whole && id.internal[i] == (char)(i * 7);
  if (!whole) return say(kInvalidArgument, "the id is not that of ncclGetUniqueId");
  Comm* c = new Comm;
  c->rank = rank, c->ranks = ranks, c->bytes = sizeof(File) + 4 * kPiece * ranks;
  c->fd = open(path_of(id).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock lock = {};
  lock.l_type = F_WRLCK, lock.l_whence = SEEK_SET, lock.l_start = rank, lock.l_len = 1;
  if (c->fd < 0 || ftruncate(c->fd, c->bytes) || fcntl(c->fd, F_OFD_SETLK, &lock))
    return say(kSystemError, "no memory to share, or the rank is taken");
  c->file = (File*)mmap(0, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
  if (c->file == MAP_FAILED) return say(kSystemError, "no memory to share");
  c->file->ranks[rank].gpu = emu_gpu;
  if (!meet(c)) return say(kSystemError, "the ranks did not come");
  unlink(path_of(id).c_str());  // all have it open
  for (int a = 0; a < ranks; a++)
    for (int b = 0; b < a; b++)
      if (c->file->ranks[a].gpu == c->file->ranks[b].gpu)
        return say(kInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(b) + " and rank " +
                                      std::to_string(a) + " both on CUDA device " +
                                      std::to_string(c->file->ranks[a].gpu));
  return *to = c, kSuccess;
}
Result ncclAllReduce(const void* src, void* dst, size_t n, int type, int op, Comm* c, void* stream) {
  return op != kSum ? say(kInvalidArgument, "the emulated NCCL adds alone")
                    : start(kAllReduce, src, dst, n, type, 0, c, stream);
}
Result ncclBroadcast(const void* src, void* dst, size_t n, int type, int root, Comm* c, void* stream) {
  return start(kBroadcast, src, dst, n, type, root, c, stream);
}
Result ncclReduce(const void* src, void* dst, size_t n, int type, int op, int root, Comm* c, void* stream) {
  return op != kSum ? say(kInvalidArgument, "the emulated NCCL adds alone")
                    : start(kReduce, src, dst, n, type, root, c, stream);
}
Result ncclAllGather(const void* src, void* dst, size_t n, int type, Comm* c, void* stream) {
  return start(kAllGather, src, dst, n, type, 0, c, stream);
}
Result ncclReduceScatter(const void* src, void* dst, size_t n, int type, int op, Comm* c, void* stream) {
  return op != kSum ? say(kInvalidArgument, "the emulated NCCL adds alone")
                    : start(kReduceScatter, src, dst, n, type, 0, c, stream);
}
Result ncclCommGetAsyncError(Comm* c, Result* r) {
  return *r = c->lost ? say(kRemoteError, "a rank is gone") : kSuccess, kSuccess;
}
Result ncclCommAbort(Comm* c) { return c->aborted = true, kSuccess; }
// The memory stays: work that was aborted may still look at it.
Result ncclCommDestroy(Comm* c) { return close(c->fd), kSuccess; }
}
