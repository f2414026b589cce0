// A libcuda with cuBLAS that computes nothing: every result is zero. It reports each call that a GPU's driver refuses,
// and each that a driver lets pass though it means nothing: memory of the host that changes under a copy, an event that
// was never recorded, work of two streams on the same memory with no event between it, a graph that uses memory which
// was freed since. Problems of full size take a second.
//
// A violation is a line in the file that STRICT_CUDA_LOG names, and strict_violations() returns the violations of this
// process. When the context is released the counts of all calls follow there. STRICT_CUDA_CAPABILITY chooses one of the
// GPUs in kernels.cc, and strict_gpu() another one.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef int Result;
typedef uint64_t Address;
enum {
  kOK = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kOutOfResources = 701,
  kTooLarge = 720,
  kCaptureUnsupported = 900,
  kCaptureInvalid = 901,
};

// wrong reports a violation, count a call or what else is counted.
void wrong(const char* format, ...) __attribute__((format(printf, 1, 2)));
void count(const std::string& what);

// Call is a call of a thread that must have the context. Only one runs at a time.
struct Call {
  explicit Call(const char* name);
  ~Call();
  bool current;
};
#define CALL(name) \
  Call call_(name); \
  if (!call_.current) return kInvalidContext
// What must not be called while a stream of the thread records; it spoils the recording.
#define UNRECORDED(name) \
  CALL(name); \
  if (spoils(name)) return kCaptureUnsupported
bool spoils(const char* name);

struct Gpu {
  int capability;
  const char* name;
  int multiprocessors, block_shared, shared, warps, blocks;  // bytes of a block and of a multiprocessor; most of each
  size_t memory;
};
const Gpu& gpu();
extern bool cooperative;  // it starts blocks that wait for each other

struct Stream;
// Clock is how much of the work that each stream was given is done.
typedef std::map<Stream*, long> Clock;

struct Allocation { size_t bytes; long id; Clock users; };  // users: the last work of each stream that uses it
struct Use { long id; std::string what; };
struct Graph { std::map<Address, Use> uses; };  // of allocations, by their beginnings
struct Transfer { long at; char* host; size_t bytes; uint64_t contents; bool down; };
struct Stream {
  Graph* recorded = nullptr;
  bool spoiled = false;
  long given = 0;
  Clock seen;  // what comes before the work that it is given next
  std::vector<Transfer> transfers;
};

extern Stream* recording;  // the stream that records

// find returns the allocation that an address lies in, or nullptr, and where it begins.
Allocation* find(Address p, Address* base = nullptr);
// range checks that memory is of one allocation.
void range(const std::string& what, Address p, size_t bytes);
// work gives a stream work that uses allocations.
Result work(Stream* s, const std::string& what, const std::vector<Address>& uses);
bool unload_kernels();  // reports whether there were any
