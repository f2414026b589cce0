// Fibers, barriers, shuffles and the order in which the threads of a block run.
//
// A barrier or a shuffle suspends a thread; a block goes on when all its threads have come to the same barrier, a warp
// when all lanes of the mask have come to the same shuffle. Warps run one after the other, each up to a barrier.
// Mistakes end the launch with a message (fail), as a fault ends a kernel on a GPU.
#include "run.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace emu {
Coordinates now;
Order order = kForward;
Position position;
int line;
static std::string failure;
static const char* kernel_name = "";

static std::map<std::string, Kernel>& table() {
  static std::map<std::string, Kernel> t;
  return t;
}
void add(const Kernel& k) { table()[k.name] = k; }
const Kernel* find(const char* name) {
  auto it = table().find(name);
  return it == table().end() ? nullptr : &it->second;
}

// The calling convention of System V on x86-64: rbx, rbp and r12 to r15 belong to the caller.
extern "C" void emu_switch(void** save, void* load);
asm(R"(
.text
.globl emu_switch
.type emu_switch,@function
emu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
)");

enum State : uint8_t { kReady, kAtBarrier, kAtShuffle, kDone };
struct Fiber {
  void* sp;
  char* stack;
  State state;
  uint8_t parity;  // shuffles alternate between two values, so that a quick lane does not overwrite what a slow one has
                   // yet to read
  uint64_t value[2];
  uint32_t tiles[2][6];  // of a product: what the lane has of A and of B
  uint32_t mask;
  Shuffle kind;
  int line;
};
static const size_t kStack = 64 << 10;
static std::vector<Fiber> fibers;
static void* scheduler;
static int current = -1, threads;
static void (*body_call)(void**);
static void** body_parameters;
static uint64_t random_state = 88172645463325252ull;

static void suspend() { emu_switch(&fibers[current].sp, scheduler); }

static void body() {
  body_call(body_parameters);
  fibers[current].state = kDone;
  suspend();
  abort();
}

void fail(const char* format, ...) {
  if (failure.empty()) {
    char text[400], where[200], at[24] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (line) snprintf(at, sizeof at, ", line %d", line);
    snprintf(where, sizeof where, "kernel %s%s, block %u,%u,%u, thread %u: ", kernel_name, at, now.block.x, now.block.y,
             now.block.z, now.thread.x);
    failure = std::string(where) + text;
  }
  if (current >= 0) {
    suspend();
    abort();
  }
}
const char* failed() { return failure.empty() ? nullptr : failure.c_str(); }
void forget_failure() { failure.clear(); }

void barrier(int line) {
  fibers[current].state = kAtBarrier;
  fibers[current].line = line;
  suspend();
}

uint64_t shuffle(uint32_t mask, uint64_t value, Shuffle kind, int argument) {
  int me = current, lane = me & 31, base = me & ~31;
  if (!(mask >> lane & 1)) fail("a lane that is not in its own shuffle mask");
  Fiber& x = fibers[me];
  int p = x.parity;
  x.value[p] = value, x.mask = mask, x.kind = kind, x.state = kAtShuffle;
  suspend();
  fibers[me].parity ^= 1;
  int from = kind == kXor ? lane ^ argument : kind == kDown ? lane + argument : argument & 31;
  if (from > 31 || base + from >= threads || !(mask >> from & 1)) return value;
  return fibers[base + from].value[p];
}

// half_of is the value of a bfloat16.
static float half_of(uint32_t two, int upper) {
  uint32_t u = upper ? two & 0xffff0000u : two << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

void mma(float* c, const uint32_t* a, const uint32_t* b) {
  int me = current, lane = me & 31, base = me & ~31, p = fibers[me].parity;
  if (threads - base < 32) fail("a product of a warp of %d threads", threads - base);
  memcpy(fibers[me].tiles[p], a, 16);
  memcpy(fibers[me].tiles[p] + 4, b, 8);
  shuffle(0xffffffffu, 0, kMultiply, lane);
  for (int i = 0; i < 4; i++) {
    int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; k++) {
      uint32_t x = fibers[base + row % 8 * 4 + k % 8 / 2].tiles[p][row / 8 + k / 8 * 2],
               y = fibers[base + column * 4 + k % 8 / 2].tiles[p][4 + k / 8];
      c[i] += half_of(x, k % 2) * half_of(y, k % 2);
    }
  }
}

static void resume(int i) {
  current = i;
  Dim d = now.block_dim;
  now.thread = d.y == 1 && d.z == 1 ? Dim{(unsigned)i, 0, 0} : Dim{i % d.x, i / d.x % d.y, i / (d.x * d.y)};
  position.thread = (uint16_t)i;
  emu_switch(&scheduler, fibers[i].sp);
  current = -1;
}

// release_warp wakes the lanes of a warp whose shuffle is complete.
static bool release_warp(int base, int lanes) {
  for (int l = 0; l < lanes; l++) {
    Fiber& x = fibers[base + l];
    if (x.state != kAtShuffle) continue;
    bool complete = true;
    for (int j = 0; j < lanes && complete; j++) {
      if (!(x.mask >> j & 1)) continue;
      Fiber& y = fibers[base + j];
      if (y.state == kDone) {
        fail("a lane of a shuffle mask has left the kernel");
        return false;
      }
      complete = y.state == kAtShuffle && y.mask == x.mask && y.kind == x.kind;
    }
    if (!complete) continue;
    for (int j = 0; j < lanes; j++)
      if (x.mask >> j & 1) fibers[base + j].state = kReady;
    return true;
  }
  return false;
}

// arrange writes 0 … n - 1 in the order of the run.
static void arrange(int* sequence, int n) {
  for (int i = 0; i < n; i++) sequence[i] = order == kReverse ? n - 1 - i : i;
  if (order != kRandom) return;
  for (int i = n - 1; i > 0; i--) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    std::swap(sequence[i], sequence[(random_state >> 32) * (i + 1) >> 32]);
  }
}

// run_warp lets the lanes of a warp run until none can go on before a barrier, in a new order after each shuffle. It
// reports whether any ran.
static bool run_warp(int base) {
  int sequence[32], lanes = threads - base < 32 ? threads - base : 32;
  bool ran = false;
  do {
    arrange(sequence, lanes);
    for (int i = 0; i < lanes; i++) {
      if (fibers[base + sequence[i]].state != kReady) continue;
      ran = true;
      resume(base + sequence[i]);
      if (failed()) return ran;
    }
  } while (release_warp(base, lanes));
  return ran;
}

// release_barrier wakes the block where all its threads stand at one barrier.
static bool release_barrier() {
  int waiting = 0, alive = 0, line = -1;
  for (int i = 0; i < threads; i++) {
    alive += fibers[i].state != kDone;
    if (fibers[i].state != kAtBarrier) continue;
    waiting++;
    if (line >= 0 && fibers[i].line != line)
      return fail("threads wait at the barriers of lines %d and %d", line, fibers[i].line), false;
    line = fibers[i].line;
  }
  if (alive == 0 || waiting < alive) return false;
  if (waiting != threads)
    return fail("the barrier of line %d is reached by %d of %d threads, the others have left the kernel", line, waiting,
                threads),
           false;
  for (int i = 0; i < threads; i++) fibers[i].state = kReady;
  position.epoch++;
  return true;
}

static void run_block() {
  for (int i = 0; i < threads; i++) {
    Fiber& x = fibers[i];
    if (!x.stack)
      x.stack = (char*)mmap(0, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void** s = (void**)(x.stack + kStack -
                        (size_t)(i * 448 & 0x1fc0));  // stacks that do not all fall into the same lines of the cache
    *--s = nullptr;
    *--s = (void*)body;
    for (int k = 0; k < 6; k++) *--s = nullptr;
    x.sp = s, x.state = kReady, x.parity = 0;
  }
  int sequence[32], warps = (threads + 31) / 32;
  for (;;) {
    arrange(sequence, warps);
    bool ran = false;
    for (int i = 0; i < warps; i++) {
      ran |= run_warp(32 * sequence[i]);
      if (failed()) return;
    }
    if (release_barrier()) continue;
    if (failed()) return;
    bool done = true;
    for (int i = 0; i < threads; i++) done &= fibers[i].state == kDone;
    if (done) return;
    if (!ran) return fail("the threads wait for each other: a barrier or shuffle that not all of them reach");
  }
}

void run_grid(const Kernel& k, Dim grid, Dim block, void** parameters) {
  kernel_name = k.name;
  threads = block.x * block.y * block.z;
  if ((int)fibers.size() < threads) fibers.resize(threads);
  body_call = k.call, body_parameters = parameters;
  now.grid_dim = grid, now.block_dim = block;
  position.first = position.block + 1;
  uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  for (uint64_t n = 0; n < blocks && !failed(); n++) {
    uint64_t b = order == kReverse ? blocks - 1 - n : n;
    now.block = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / ((uint64_t)grid.x * grid.y))};
    position.block++, position.epoch = 0;
    fresh_shared();
    run_block();
  }
}
void (*launch)(const Kernel&, Dim, Dim, void**) = run_grid;
}  // namespace emu
