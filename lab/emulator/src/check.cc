// Device memory and the check of every access to it.
//
// The compiler calls __tsan_read4(address) and its like before each access of a kernel. An address of device
// memory must lie in a live allocation. For each 4 bytes of device and of shared memory a shadow holds who wrote and
// who read last; a write and another access by two threads in one launch, with no barrier between them, is a race.
// Accesses of 2 bytes have shadows of their own, one for each 2 bytes, so that threads may write neighbouring halves of
// a word.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "run.h"

namespace emu {
struct Access { uint32_t block; uint16_t thread, epoch; };
struct Shadow { Access wrote, read; };
static const uint16_t kSeveral = 0xffff;    // threads of one block
static const uint16_t kSeveralBlocks = 0xfffe;

static const size_t kArena = 16ull << 30, kGap = 256, kKept = 64 << 20;
static char* arena;
static Shadow *shadows, *halves;
static uint32_t half_launch = ~0u;  // first block of the last launch with accesses of 2 bytes
static size_t used, live;
static std::map<uint64_t, size_t> blocks;
static uint16_t* rooms;  // of every kGap bytes of the arena: how many of them belong to an allocation

extern "C" char __start_vse_shared[], __stop_vse_shared[];
static const size_t kStatic = __stop_vse_shared - __start_vse_shared;
static size_t touched_from = 0, touched_to = kStatic;  // of static shared memory, since it was filled
static Shadow* const shared_shadow = (Shadow*)calloc(kStatic / 4 + 1, sizeof(Shadow));
alignas(16) char dynamic_shared[kMostShared];
static Shadow dynamic_shadow[kMostShared / 4];
static unsigned dynamic_bytes;  // of the launch

static void open_arena() {
  if (arena) return;
  arena = (char*)mmap(0, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  shadows = (Shadow*)mmap(0, kArena / 4 * sizeof(Shadow), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  halves = (Shadow*)mmap(0, kArena / 2 * sizeof(Shadow), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  rooms = (uint16_t*)mmap(0, kArena / kGap * sizeof *rooms, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// give_back gives the whole pages of [lo, hi) of the arena and of its shadows back, and keeps the addresses. The first
// kKept bytes are not given back: to have them cleared again for every small test takes longer than most of its
// kernels.
static void give_back(size_t lo, size_t hi) {
  auto drop = [](void* base, size_t from, size_t to) {
    from = (from + 4095) & ~4095ull, to &= ~4095ull;
    if (to > from) madvise((char*)base + from, to - from, MADV_DONTNEED);
  };
  drop(arena, lo, hi);
  drop(shadows, lo / 4 * sizeof(Shadow), hi / 4 * sizeof(Shadow));
  drop(halves, lo / 2 * sizeof(Shadow), hi / 2 * sizeof(Shadow));
}

void* allocate(size_t bytes) {
  open_arena();
  size_t size = (bytes + kGap - 1) / kGap * kGap;
  if (arena == MAP_FAILED || shadows == MAP_FAILED || halves == MAP_FAILED || rooms == MAP_FAILED ||
      size > kArena - used - 2 * kGap)
    return nullptr;
  used += kGap;
  char* p = arena + used;
  used += size;
  memset(p, 0xff, size);
  for (size_t n = 0; n < bytes; n += kGap) rooms[(p - arena + n) / kGap] = bytes - n < kGap ? bytes - n : kGap;
  blocks[(uint64_t)p] = bytes;
  live += bytes;
  return p;
}

bool release(void* p) {
  auto it = blocks.find((uint64_t)p);
  if (it == blocks.end()) return false;
  live -= it->second;
  size_t at = (char*)p - arena, size = it->second;
  memset(rooms + at / kGap, 0, (size + kGap - 1) / kGap * sizeof *rooms);
  blocks.erase(it);
  if (blocks.empty()) {  // everything is free: begin anew; shadows need not be cleared, as they are of launches before
    give_back(kKept, used);
    used = 0;
  } else if (size >= 1 << 20) {
    give_back(at > kKept ? at : kKept, at + size);
  }
  return true;
}

size_t allocated() { return live; }

static std::map<uint64_t, size_t>::iterator owner(uint64_t p) {
  auto it = blocks.upper_bound(p);
  return it == blocks.begin() ? blocks.end() : --it;
}

bool inside(uint64_t p, size_t bytes) {
  auto it = owner(p);
  return it != blocks.end() && p + bytes <= it->first + it->second;
}

void fresh_shared(unsigned dynamic) {
  if (touched_to > touched_from) memset(__start_vse_shared + touched_from, 0xff, touched_to - touched_from);
  touched_from = kStatic, touched_to = 0;
  memset(dynamic_shared, 0xff, dynamic_bytes = dynamic);
}
void save_shared(std::vector<char>& to) {
  to.assign(__start_vse_shared, __stop_vse_shared);
  to.insert(to.end(), dynamic_shared, dynamic_shared + dynamic_bytes);
}
void restore_shared(const std::vector<char>& from) {
  memcpy(__start_vse_shared, from.data(), kStatic);
  memcpy(dynamic_shared, from.data() + kStatic, dynamic_bytes);
  touched_from = 0, touched_to = kStatic;
}

static __attribute__((noinline, cold)) void race(const char* what, const char* other, const char* where,
                                                 const Access& a) {
  fail("race in %s memory: %s what thread %d of %s has %s, with no barrier between", where, what,
       a.thread >= kSeveralBlocks ? -1 : a.thread, a.block == position.block ? "the same block" : "another block",
       other);
}

// look_together is look for blocks that run at once, without note compare. Each has its own shared memory, in the same
// place: what another one did there does not matter. A read that comes after those before takes their place; of others
// the greatest number is kept, and as the epoch their row of the grid, 0 of several.
static __attribute__((noinline)) void look_together(Shadow& s, bool write, const char* where, bool note) {
  const Position p = position;
  const bool shared = *where == 's';
  auto matters = [&](const Access& a) { return a.block >= p.first && (!shared || own(a.block)); };
  auto conflict = [&](const Access& a) {
    if (!matters(a)) return false;
    if (a.thread == kSeveralBlocks) return !all_before(a.block, a.epoch);
    if (own(a.block)) return a.epoch == p.epoch && a.thread != p.thread;
    return !before(a.block);
  };
  if (conflict(s.wrote)) return race(write ? "writes" : "reads", "written", where, s.wrote);
  if (write && conflict(s.read)) return race("writes", "read", where, s.read);
  if (!note) return;
  Access mine = {p.block, p.thread, p.epoch};
  if (write) {
    s.wrote = mine;
    return;
  }
  if (conflict(s.read)) {
    const bool several = s.read.thread == kSeveralBlocks;
    const uint16_t last = several ? s.read.epoch : row(s.read.block), now = row(p.block);
    if (own(s.read.block) && !several) mine.thread = kSeveral;
    else mine = {s.read.block > p.block ? s.read.block : p.block, kSeveralBlocks, last == now ? now : uint16_t(0)};
  }
  s.read = mine;
}

// first is the first block whose accesses matter: of the launch for device memory, the running one for shared memory,
// of which each block has its own.
static inline __attribute__((always_inline)) void compare(const Shadow& s, bool write, const char* where,
                                                          uint32_t first) {
  if (together) return look_together(const_cast<Shadow&>(s), write, where, false);
  const Position p = position;
  auto conflict = [&](const Access& a) {
    if (a.block < first) return false;
    if (a.block != p.block || a.thread == kSeveralBlocks) return true;
    return a.epoch == p.epoch && a.thread != p.thread;
  };
  if (conflict(s.wrote)) return race(write ? "writes" : "reads", "written", where, s.wrote);
  if (write && conflict(s.read)) race("writes", "read", where, s.read);
}

// look is compare, and notes the access.
static inline __attribute__((always_inline)) void look(Shadow& s, bool write, const char* where, uint32_t first) {
  if (together) return look_together(s, write, where, true);
  const Position p = position;
  if (!write && s.read.block == p.block && s.read.epoch == p.epoch && s.read.thread == kSeveral &&
      s.wrote.block >= first && s.wrote.block == p.block && s.wrote.epoch != p.epoch)
    return;  // one more reader of what an earlier epoch wrote: the common case
  compare(s, write, where, first);
  if (write) {
    s.wrote = {p.block, p.thread, p.epoch};
    return;
  }
  Access mine = {p.block, p.thread, p.epoch};
  if (s.read.block >= first) {
    if (s.read.block != p.block || s.read.thread == kSeveralBlocks) mine.thread = kSeveralBlocks;
    else if (s.read.epoch == p.epoch && s.read.thread != p.thread) mine.thread = kSeveral;
  }
  s.read = mine;
}

// refuse says what is wrong with an access to device memory.
static __attribute__((noinline, cold)) void refuse(uint64_t p, size_t bytes, bool write) {
  const char* does = write ? "writes" : "reads";
  auto it = owner(p);
  if (it == blocks.end()) return fail("%s %zu bytes of device memory that was never allocated or is free", does, bytes);
  if (p + bytes > it->first + it->second)
    return fail("%s %zu bytes at byte %llu of an allocation of %zu", does, bytes, (unsigned long long)(p - it->first),
                it->second);
  fail("%s %zu bytes at an address that is not a multiple of %zu", does, bytes, bytes);
}

static inline __attribute__((always_inline)) void access(uint64_t p, size_t bytes, bool write) {
  const uint64_t at = p - (uint64_t)arena, in_static = p - (uint64_t)__start_vse_shared;
  if (at < kArena) {
    if (p % bytes || at % kGap + bytes > rooms[at / kGap]) return refuse(p, bytes, write);
    if (bytes == 2) {
      half_launch = position.first;
      compare(shadows[at / 4], write, "device", position.first);
      return look(halves[at / 2], write, "device", position.first);
    }
    for (size_t i = 0; i < (bytes + 3) / 4; i++) look(shadows[at / 4 + i], write, "device", position.first);
    if (half_launch != position.first) return;
    for (size_t i = 0; i < (bytes + 3) / 4 * 2; i++)
      compare(halves[at / 4 * 2 + i], write, "device", position.first);
  } else if (in_static < kStatic) {
    if (in_static < touched_from) touched_from = in_static;
    if (in_static + bytes > touched_to) touched_to = in_static + bytes;
    for (uint64_t w = p / 4; w <= (p + bytes - 1) / 4; w++)
      look(shared_shadow[w - (uint64_t)__start_vse_shared / 4], write, "shared", position.block);
  } else if (p - (uint64_t)dynamic_shared < kMostShared) {
    const uint64_t at = p - (uint64_t)dynamic_shared;
    if (at + bytes > dynamic_bytes)
      return fail("%s %zu bytes at byte %llu of %u of dynamic shared memory", write ? "writes" : "reads", bytes,
                  (unsigned long long)at, dynamic_bytes);
    for (uint64_t w = at / 4; w <= (at + bytes - 1) / 4; w++)
      look(dynamic_shadow[w], write, "shared", position.block);
  } else if (p < 4096) {
    fail("%s %zu bytes at address %llu", write ? "writes" : "reads", bytes, (unsigned long long)p);
  }
}
}  // namespace emu

extern "C" {
#define SIZE(n) \
  void __tsan_read##n(uint64_t p) { emu::access(p, n, false); } \
  void __tsan_write##n(uint64_t p) { emu::access(p, n, true); } \
  void __tsan_unaligned_read##n(uint64_t p) { __tsan_read_range(p, n); } \
  void __tsan_unaligned_write##n(uint64_t p) { __tsan_write_range(p, n); }
void __tsan_init() {}
void __tsan_read_range(uint64_t p, size_t n) { for (size_t i = 0; i < n; i++) emu::access(p + i, 1, false); }
void __tsan_write_range(uint64_t p, size_t n) { for (size_t i = 0; i < n; i++) emu::access(p + i, 1, true); }
SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16)
}
