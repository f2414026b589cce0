// Modules, kernels and their launches.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>

#include "strict.h"

// registers.tsv, within this library.
asm(".section .rodata\n.globl strict_registers\n.hidden strict_registers\nstrict_registers:\n.incbin \"" REGISTERS
    "\"\n.byte 0\n.previous");
extern "C" const char strict_registers[];

struct Function {
  std::string name, types;  // of the parameters: p is as large as an address, f a float, i another number of 4 bytes
  int threads = 1024, shared = 0, allowed = 0, registers = 0;  // shared: static; allowed: dynamic
};
struct Module { std::vector<std::unique_ptr<Function>> functions; };

namespace {
std::set<Module*> modules;
const int kPlainShared = 48 << 10;  // of a block, without a call that allows it more

const Gpu gpus[] = {
    {75, "Tesla T4", 40, 64 << 10, 64 << 10, 32, 16, 15ull << 30},
    {80, "NVIDIA A100-SXM4-80GB", 108, 163 << 10, 164 << 10, 64, 32, 79ull << 30},
    {90, "NVIDIA H200", 132, 227 << 10, 228 << 10, 64, 32, 140ull << 30},
    {100, "NVIDIA B200", 148, 227 << 10, 228 << 10, 64, 32, 178ull << 30},
    {120, "NVIDIA GeForce RTX 5090", 170, 99 << 10, 100 << 10, 48, 24, 31ull << 30},
};

// registers_of reads the registers of the kernels on a GPU.
std::map<std::string, int> registers_of(const Gpu& g) {
  std::map<std::string, int> found;
  std::istringstream lines(strict_registers);
  size_t column = 0;
  for (std::string line; getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; getline(in, cell, '\t');) cells.push_back(cell);
    if (cells[0] == "file")
      while (column < cells.size() && cells[column] != "sm_" + std::to_string(g.capability)) column++;
    else if (column && column < cells.size())
      found[cells[1]] = atoi(cells[column].c_str());
  }
  return found;
}

// after returns the number after a word of a text, and otherwise if it is not there.
int after(const std::string& text, const char* word, int otherwise) {
  size_t at = text.find(word);
  return at == text.npos ? otherwise : (int)lround(10 * atof(text.c_str() + at + strlen(word)));
}

// shared_of is the static shared memory of a kernel: of its variables, and of the variables of its file that it names.
int shared_of(const std::string& ptx, const std::string& code) {
  int sum = 0;
  const std::string word = ".shared .align ";
  for (size_t at = ptx.find(word); at != ptx.npos; at = ptx.find(word, at + 1)) {
    size_t end = ptx.find(';', at), bracket = ptx.find('[', at), space = ptx.rfind(' ', std::min(end, bracket));
    std::string name = ptx.substr(space + 1, std::min(end, bracket) - space - 1);
    if (code.find(name) == code.npos) continue;
    sum += bracket < end ? atoi(ptx.c_str() + bracket + 1) : 8;  // one number has at most 8 bytes
  }
  return sum;
}

int warps(int threads) { return (threads + 31) / 32; }
// warp_registers is what a warp of a kernel takes: registers are given out by 256.
int warp_registers(const Function& f) { return (f.registers * 32 + 255) / 256 * 256; }

// occupancy is how many blocks a multiprocessor holds at once.
int occupancy(const Function& f, int threads, int dynamic) {
  const int reserved = gpu().capability >= 80 ? 1024 : 0, quarter = 65536 / 4;
  int of_shared = (f.shared + dynamic + 127) / 128 * 128 + reserved;
  int blocks = std::min(gpu().blocks, gpu().warps / warps(threads));
  blocks = std::min(blocks, quarter / warp_registers(f) * 4 / warps(threads));
  return of_shared ? std::min(blocks, gpu().shared / of_shared) : blocks;
}

Result launch(Function* f, const unsigned* grid, const unsigned* block, int dynamic, Stream* s, void** values,
              bool together) {
  count("kernel " + f->name);
  const char* name = f->name.c_str();
  if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
    return wrong("%s: a grid of %u, %u, %u blocks", name, grid[0], grid[1], grid[2]), kInvalidValue;
  const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (!threads || threads > (uint64_t)f->threads)
    return wrong("%s: blocks of %d threads, at most %d", name, (int)threads, f->threads), kInvalidValue;
  if (warp_registers(*f) * warps(threads) > 65536)
    return wrong("%s: blocks of %d threads with %d registers", name, (int)threads, f->registers), kOutOfResources;
  if (dynamic > std::max(f->allowed, kPlainShared - f->shared))
    return wrong("%s: %d bytes of dynamic shared memory, not allowed before", name, dynamic), kInvalidValue;
  if (together) {
    count("together");
    uint64_t most = (uint64_t)occupancy(*f, threads, dynamic) * gpu().multiprocessors;
    if ((uint64_t)grid[0] * grid[1] * grid[2] > most)
      return wrong("%s: %u blocks at once, the GPU holds %d", name, grid[0] * grid[1] * grid[2], (int)most), kTooLarge;
  }
  std::vector<Address> uses;
  for (size_t i = 0; i < f->types.size(); i++) {
    if (f->types[i] == 'f' && std::isnan(*(float*)values[i])) wrong("%s: parameter %zu is NaN", name, i);
    if (f->types[i] != 'p') continue;
    Address p = *(Address*)values[i];
    if (p < 1ull << 45) continue;  // a number
    if (find(p))
      uses.push_back(p);
    else
      wrong("%s: parameter %zu is an address in no allocation", name, i);
  }
  return work(s, f->name, uses);
}
}  // namespace

static const Gpu* of_capability(int capability) {
  for (const Gpu& g : gpus)
    if (g.capability == capability) return &g;
  abort();
}

static const Gpu*& chosen() {
  static const char* const value = getenv("STRICT_CUDA_CAPABILITY");
  static const Gpu* now = of_capability(value ? atoi(value) : 90);
  return now;
}

const Gpu& gpu() { return *chosen(); }

bool cooperative = true;

// strict_gpu chooses another GPU, of a capability, that starts blocks which wait for each other or does not.
API void strict_gpu(int capability, int together) { chosen() = of_capability(capability), cooperative = together; }

bool unload_kernels() {
  bool any = !modules.empty();
  modules.clear();
  return any;
}

// PTX 7.4 is the newest that the oldest driver takes (CUDA 11.4).
API Result cuModuleLoadDataEx(Module** m, const char* image, unsigned n, const int* options, void**) {
  UNRECORDED("cuModuleLoadDataEx");
  for (unsigned i = 0; i < n; i++)
    if (options[i] != 5 && options[i] != 6) wrong("cuModuleLoadDataEx with option %d", options[i]);
  const std::string ptx = image, entry = ".visible .entry ";
  if (int v = after(ptx, ".version ", 999); v > 74) wrong("PTX of version %d.%d", v / 10, v % 10);
  if (int sm = after(ptx, ".target sm_", 9990) / 10; sm > gpu().capability)
    return wrong("PTX for compute capability %d.%d", sm / 10, sm % 10), kNoBinary;
  const auto registers = registers_of(gpu());
  auto loaded = std::make_unique<Module>();
  for (size_t at = ptx.find(entry), next; at != ptx.npos; at = next) {
    next = ptx.find(entry, at + 1);
    const size_t open = ptx.find('(', at), close = ptx.find(')', open), body = ptx.find('{', close);
    auto f = std::make_unique<Function>();
    f->name = ptx.substr(at + entry.size(), open - at - entry.size());
    const std::string param = ".param .";
    for (size_t p = ptx.find(param, open); p < close; p = ptx.find(param, p + 1))
      f->types += ptx[p + param.size()] == 'f' ? 'f' : ptx.compare(p + param.size(), 3, "u64") ? 'i' : 'p';
    f->threads = after(ptx.substr(close, body - close), ".maxntid ", 10240) / 10;
    f->shared = shared_of(ptx, ptx.substr(body, next - body));
    if (!(f->registers = registers.count(f->name) ? registers.at(f->name) : 0))
      wrong("%s: no row in registers.tsv", f->name.c_str()), f->registers = 255;
    loaded->functions.push_back(std::move(f));
  }
  return modules.insert(*m = loaded.release()), kOK;
}
API Result cuModuleUnload(Module* m) {
  UNRECORDED("cuModuleUnload");
  if (!modules.erase(m)) return wrong("cuModuleUnload of no module"), kInvalidHandle;
  return delete m, kOK;
}
API Result cuModuleGetFunction(Function** f, Module* m, const char* name) {
  CALL("cuModuleGetFunction");
  if (!modules.count(m)) return wrong("cuModuleGetFunction of no module"), kInvalidHandle;
  for (auto& x : m->functions)
    if (x->name == name) return *f = x.get(), kOK;
  return wrong("no kernel %s in the module", name), kNotFound;
}
API Result cuFuncSetAttribute(Function* f, int attribute, int value) {
  CALL("cuFuncSetAttribute");
  if (attribute != 8) return wrong("cuFuncSetAttribute %d", attribute), kInvalidValue;
  return value < 0 || value + f->shared > gpu().block_shared ? kInvalidValue : (f->allowed = value, kOK);
}
API Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, Function* f, int threads, size_t dynamic) {
  CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (threads < 1 || threads > f->threads || (int)dynamic > std::max(f->allowed, kPlainShared - f->shared))
    return wrong("%s: occupancy of blocks that cannot be launched", f->name.c_str()), kInvalidValue;
  return *n = occupancy(*f, threads, dynamic), kOK;
}
API Result cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, Stream* s, void** values, void** extra) {
  CALL("cuLaunchKernel");
  if (extra) wrong("cuLaunchKernel with options");
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(f, grid, block, shared, s, values, false);
}
API Result cuLaunchCooperativeKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, Stream* s, void** values) {
  CALL("cuLaunchCooperativeKernel");
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(f, grid, block, shared, s, values, true);
}
