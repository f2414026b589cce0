// What the parts of the emulator know of each other.
#pragma once
#include <vector>

#include "emu.h"

namespace emu {
enum Order { kForward, kReverse, kRandom };
extern Order order;  // of threads within a block, and of blocks

// Position says who accesses memory: blocks are numbered through all launches, epochs count the barriers of a block.
struct Position { uint32_t first, block; uint16_t thread, epoch; };
extern Position position;

// Extent is how a kernel is launched: with that many bytes of dynamic shared memory, and together where all its blocks
// run at once.
struct Extent { Dim grid, block; unsigned shared; bool together; };
static const unsigned kMostShared = 227 << 10;  // of a block

void run_grid(const Kernel& kernel, const Extent& extent, void** parameters);

// fail ends the running launch; failed returns what was wrong, nullptr for nothing.
void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
const char* failed();
void forget_failure();

// Device memory: a range of addresses that are never used twice, filled with NaN.
void* allocate(size_t bytes);
bool release(void* p);
bool inside(uint64_t p, size_t bytes);
size_t allocated();
void fresh_shared(unsigned dynamic);
void save_shared(std::vector<char>& to);
void restore_shared(const std::vector<char>& from);

// Of blocks that run at once, which have a new number after each release. before reports whether what the block of a
// number did comes before what the running one does now, all_before whether all did that up to that number, of a row of
// the grid or, with 0, of the whole; own whether that is the running block; row counts from 1.
extern bool together;
bool before(uint32_t number);
bool all_before(uint32_t number, uint16_t row);
bool own(uint32_t number);
uint16_t row(uint32_t number);
}  // namespace emu
