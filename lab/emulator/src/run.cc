// Fibers, barriers, shuffles and the order in which the threads of a block run.
//
// A barrier or a shuffle suspends a thread; a block goes on when all its threads have come to the same barrier, a warp
// when all lanes of the mask have come to the same shuffle. Warps run one after the other, each up to a barrier.
// Mistakes end the launch with a message (fail), as a fault ends a kernel on a GPU.
//
// Blocks run one after the other too. Where a launch has all of them run at once, a block goes on to where its threads
// wait for other blocks: where one has read the last value of a counter twice in a row. It reads the values of a
// counter one after the other, even where others are there already. So a block that does not wait long enough is found:
// which accesses come before which follows from the values that it has read, not from the order of the run.
#include "run.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace emu {
Coordinates now;
Order order = kForward;
Position position;
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

enum State : uint8_t { kReady, kAtBarrier, kAtShuffle, kWatching, kDone };
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
  const uint32_t* watched;  // the counter that was read last
};
// Value is one of those that a counter had, and by block up to which number what it did comes before that.
struct Value { uint32_t value; std::vector<uint32_t> before; };
// Block is one of those that run at once.
struct Block {
  std::vector<Fiber> fibers;
  Dim at;
  uint32_t number;
  uint16_t epoch;
  std::vector<uint32_t> seen;  // by block: up to which number what it did comes before what this one does now
  std::vector<uint32_t> all;   // up to which number of any block that is so, and of the blocks of each row of the grid
  std::map<const uint32_t*, size_t> read;  // by counter: which of its values was read last, or made
  std::vector<char> shared;    // while others run
  bool done;
};
static const size_t kStack = 64 << 10, kSpare = 64 << 10;
static std::vector<Fiber> usual;  // of blocks that run one after the other
static std::vector<char*> spare;  // stacks of blocks that ran at once; few of their pages are used
static Fiber* fibers;
static void* scheduler;
static int current = -1, threads;
static int base, lanes, turns[32], turn;  // of the warp that runs: its first thread, and its lanes by their turns
static bool ran;                          // whether a lane did since this was false
static void (*body_call)(void**);
static void** body_parameters;
static uint64_t random_state = 88172645463325252ull;

// go_on lets the next lane run that can, and after the last one the scheduler. It saves where the caller stands.
static void go_on(void** caller) {
  while (turn < lanes && failure.empty()) {
    const int i = base + turns[turn++];
    if (fibers[i].state != kReady) continue;
    const Dim d = now.block_dim;
    now.thread = d.y == 1 && d.z == 1 ? Dim{(unsigned)i, 0, 0} : Dim{i % d.x, i / d.x % d.y, i / (d.x * d.y)};
    position.thread = (uint16_t)i;
    current = i, ran = true;
    return emu_switch(caller, fibers[i].sp);
  }
  current = -1;
  if (caller != &scheduler) emu_switch(caller, scheduler);
}

static void suspend() { go_on(&fibers[current].sp); }

static void body() {
  body_call(body_parameters);
  fibers[current].state = kDone;
  suspend();
  abort();
}

void fail(const char* format, ...) {
  if (failure.empty()) {
    char text[400], where[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(where, sizeof where, "kernel %s, block %u,%u,%u, thread %u: ", kernel_name, now.block.x, now.block.y,
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
  int me = current, lane = me & 31;
  if (!(mask >> lane & 1)) fail("a lane that is not in its own shuffle mask");
  Fiber& x = fibers[me];
  int p = x.parity;
  x.value[p] = value, x.mask = mask, x.kind = kind, x.state = kAtShuffle;
  suspend();
  fibers[me].parity ^= 1;
  int from = kind == kXor ? lane ^ argument : argument;
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

// give_tiles gives what the lane has of A and of B to the others of its warp, and returns where theirs lie.
static int give_tiles(const uint32_t* a, const uint32_t* b) {
  int me = current, p = fibers[me].parity;
  if (lanes < 32) fail("a product of a warp of %d threads", lanes);
  memcpy(fibers[me].tiles[p], a, 16);
  memcpy(fibers[me].tiles[p] + 4, b, 8);
  shuffle(0xffffffffu, 0, kMultiply, me & 31);
  return p;
}

void mma(float* c, const uint32_t* a, const uint32_t* b) {
  int p = give_tiles(a, b), lane = current & 31;
  for (int i = 0; i < 4; i++) {
    int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; k++) {
      uint32_t x = fibers[base + row % 8 * 4 + k % 8 / 2].tiles[p][row / 8 + k / 8 * 2],
               y = fibers[base + column * 4 + k % 8 / 2].tiles[p][4 + k / 8];
      c[i] += half_of(x, k % 2) * half_of(y, k % 2);
    }
  }
}

uint32_t tf32(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return x != x ? 0x7fffffff : (u + 0x1000) & ~0x1fffu;
}

// read_tf32 is the value of an operand.
static float read_tf32(uint32_t u) {
  float f;
  u &= ~0x1fffu;
  memcpy(&f, &u, 4);
  return f;
}

void mma_tf32(float* c, const uint32_t* a, const uint32_t* b) {
  int p = give_tiles(a, b), lane = current & 31;
  for (int i = 0; i < 4; i++) {
    int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8; k++)
      c[i] += read_tf32(fibers[base + row % 8 * 4 + k % 4].tiles[p][row / 8 + k / 4 * 2]) *
              read_tf32(fibers[base + column * 4 + k % 4].tiles[p][4 + k / 4]);
  }
}

// release_warp wakes the lanes of a warp whose shuffle is complete.
static bool release_warp() {
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

// run_warp lets the lanes of a warp run until none can go on before a barrier, in a new order after each shuffle.
static void run_warp(int first) {
  base = first, lanes = threads - base < 32 ? threads - base : 32;
  do {
    arrange(turns, lanes);
    turn = 0;
    go_on(&scheduler);
  } while (!failed() && release_warp());
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

static void begin_block(std::vector<Fiber>& of) {
  if ((int)of.size() < threads) of.resize(threads);
  fibers = of.data();
  for (int i = 0; i < threads; i++) {
    Fiber& x = fibers[i];
    x.watched = nullptr;
    if (!x.stack && !spare.empty())
      x.stack = spare.back(), spare.pop_back();
    else if (!x.stack)
      x.stack = (char*)mmap(0, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void** s = (void**)(x.stack + kStack -
                        (size_t)(i * 448 & 0x1fc0));  // stacks that do not all fall into the same lines of the cache
    *--s = nullptr;
    *--s = (void*)body;
    for (int k = 0; k < 6; k++) *--s = nullptr;
    x.sp = s, x.state = kReady, x.parity = 0;
  }
}

// run_block runs a block to its end, or to where its threads wait for other blocks: then it is false.
static bool run_block() {
  int sequence[32], warps = (threads + 31) / 32;
  for (int i = 0; i < threads; i++)
    if (fibers[i].state == kWatching) fibers[i].state = kReady;
  for (;;) {
    arrange(sequence, warps);
    ran = false;
    for (int i = 0; i < warps; i++) {
      run_warp(32 * sequence[i]);
      if (failed()) return true;
    }
    if (release_barrier()) continue;
    if (failed()) return true;
    bool done = true, watching = false;
    for (int i = 0; i < threads; i++) done &= fibers[i].state == kDone, watching |= fibers[i].state == kWatching;
    if (done) return true;
    if (!ran && watching) return false;
    if (!ran)
      return fail("the threads wait for each other: a barrier or shuffle that not all of them reach"), true;
  }
}

// place is where a block of a number lies in the grid.
static Dim place(Dim grid, uint64_t b) {
  return {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / ((uint64_t)grid.x * grid.y))};
}

// Blocks that run at once.
bool together;
static std::vector<Block> all;
static size_t running;                                       // of all
static std::vector<uint32_t> owners;                         // of the numbers from position.first on
static std::map<const uint32_t*, std::vector<Value>> counters;
static uint64_t news;                                        // counts what a block may wait for

// renew gives the running block a number that none has had.
static void renew() {
  owners.push_back(running);
  all[running].number = position.block = position.first + owners.size() - 1;
}

bool own(uint32_t number) { return owners[number - position.first] == running; }
bool before(uint32_t number) { return number <= all[running].seen[owners[number - position.first]]; }
bool all_before(uint32_t number, uint16_t row) { return number <= all[running].all[row]; }
uint16_t row(uint32_t number) { return all[owners[number - position.first]].at.y + 1; }

// counter is the values of one.
static std::vector<Value>& counter(const uint32_t* at) {
  if (!together) fail("waits for other blocks in a launch whose blocks do not all run at once");
  if ((uint64_t)at % 4 || !inside((uint64_t)at, 4)) fail("a counter that is not in device memory");
  std::vector<Value>& values = counters[at];
  if (values.empty()) values.push_back({*at, std::vector<uint32_t>(all.size())});
  return values;
}

void add_release(uint32_t* at, uint32_t value) {
  std::vector<Value>& values = counter(at);
  Block& b = all[running];
  Value v = values.back();
  v.value += value;
  for (size_t i = 0; i < all.size(); i++) v.before[i] = std::max(v.before[i], b.seen[i]);
  v.before[running] = b.number;
  *at = v.value;
  b.read[at] = values.size();
  values.push_back(v);
  fibers[current].watched = nullptr;
  news++;
  renew();
}

uint32_t load_acquire(const uint32_t* at) {
  std::vector<Value>& values = counter(at);
  Block& b = all[running];
  size_t& n = b.read[at];
  Fiber& x = fibers[current];
  if (x.watched == at) {
    if (n + 1 == values.size()) {
      x.state = kWatching;
      suspend();
    }
    if (n + 1 < values.size()) n++;
  }
  for (size_t i = 0; i < all.size(); i++) b.seen[i] = std::max(b.seen[i], values[n].before[i]);
  const uint32_t newest = position.first + owners.size() - 1;
  for (size_t y = 0; y < b.all.size(); y++)
    for (uint32_t& m = b.all[y]; m < newest && (own(m + 1) || before(m + 1) || (y && row(m + 1) != y));) m++;
  x.watched = at;
  return values[n].value;
}

// run_together runs the blocks in turn, each as far as it comes, until all have ended.
static void run_together(const Extent& e, uint64_t blocks) {
  together = true;
  all.clear(), owners.clear(), counters.clear();
  all.resize(blocks);
  std::vector<int> sequence(blocks);
  uint64_t left = blocks;
  for (bool first = true; left && !failed(); first = false) {
    const uint64_t had = news;
    arrange(sequence.data(), blocks);
    for (size_t i = 0; i < blocks && !failed(); i++) {
      running = sequence[i];
      Block& b = all[running];
      if (b.done) continue;
      if (first) {
        b.at = place(e.grid, running), b.epoch = 0;
        b.all.assign(e.grid.y + 1, position.first - 1);
        b.seen.assign(blocks, position.first - 1);
        fresh_shared(e.shared);
        begin_block(b.fibers);
        renew();
      } else {
        restore_shared(b.shared);
        fibers = b.fibers.data();
      }
      now.block = b.at, position.block = b.number, position.epoch = b.epoch;
      if (run_block()) {
        b.done = true, left--, news++;
        b.shared.clear();
      } else {
        save_shared(b.shared);
      }
      b.epoch = position.epoch;
    }
    if (!failed() && !first && had == news) fail("the blocks wait for each other: for a value that none gives");
  }
  for (Block& b : all)
    for (Fiber& x : b.fibers)
      if (x.stack && spare.size() < kSpare) spare.push_back(x.stack);
      else if (x.stack) munmap(x.stack, kStack);
  position.block = position.first + owners.size();
  all.clear();
  together = false;
}

void run_grid(const Kernel& k, const Extent& e, void** parameters) {
  kernel_name = k.name;
  threads = e.block.x * e.block.y * e.block.z;
  body_call = k.call, body_parameters = parameters;
  now.grid_dim = e.grid, now.block_dim = e.block;
  position.first = position.block + 1;
  uint64_t blocks = (uint64_t)e.grid.x * e.grid.y * e.grid.z;
  if (e.together) return run_together(e, blocks);
  for (uint64_t n = 0; n < blocks && !failed(); n++) {
    now.block = place(e.grid, order == kReverse ? blocks - 1 - n : n);
    position.block++, position.epoch = 0;
    fresh_shared(e.shared);
    begin_block(usual);
    run_block();
  }
}
}  // namespace emu
