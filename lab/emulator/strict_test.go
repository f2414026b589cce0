package emulator_test

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// strictPTX has names and parameters of kernels whose registers are known: 247 in the second one.
const strictPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(
	.param .u64 scale_param_0,
	.param .f32 scale_param_1,
	.param .u32 scale_param_2
)
.maxntid 256, 1, 1
{
	ret;
}
.visible .entry match_word_contexts_tf32(
	.param .u64 match_word_contexts_tf32_param_0
)
.maxntid 256, 1, 1
{
	.shared .align 4 .b8 staged[32768];
	mov.u64 	%rd1, staged;
	ret;
}
`

// strictMachine is the strict driver on the thread of the test, with memory of 64 words, pinned memory as large, two
// streams and an event.
type strictMachine struct {
	t *testing.T
	driver.Driver
	memory       driver.Ptr
	host         unsafe.Pointer
	first, other driver.Stream
	event        driver.Event
	scale, match driver.Function
}

const strictBytes = 256

func onStrict(t *testing.T, f func(*strictMachine)) {
	t.Helper()
	path := emulator.Strict(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := try.Get(driver.Open(path))(t)
	m := &strictMachine{t: t, Driver: d}
	try.Do(t, d.SetCurrent(try.Get(d.Retain(0))(t)))
	defer d.Release(0)
	defer d.SetCurrent(0)
	m.memory, m.host = try.Get(d.Alloc(strictBytes))(t), try.Get(d.AllocHost(strictBytes))(t)
	m.first, m.other = try.Get(d.NewStream())(t), try.Get(d.NewStream())(t)
	m.event = try.Get(d.NewEvent())(t)
	module := try.Get(d.LoadModule([]byte(strictPTX)))(t)
	m.scale = try.Get(d.Function(module, "scale"))(t)
	m.match = try.Get(d.Function(module, "match_word_contexts_tf32"))(t)
	emulator.Violations(t)
	f(m)
}

// launch starts blocks of a kernel, with the memory as its first parameter.
func (m *strictMachine) launch(f driver.Function, l driver.Launch) error {
	if l.Values[0] == 0 {
		l.Values[0] = uint64(m.memory)
	}
	if l.Threads == 0 {
		l.Threads = 256
	}
	if l.Grid[0] == 0 {
		l.Grid = [3]uint32{1, 1, 1}
	}
	return m.Launch(f, &l, m.first)
}

// word is the first word of the pinned memory.
func (m *strictMachine) word() *uint32 { return (*uint32)(m.host) }

// graph records a kernel.
func (m *strictMachine) graph() driver.Exec {
	m.BeginCapture(m.first)
	m.launch(m.scale, driver.Launch{})
	g := try.Get(m.EndCapture(m.first))(m.t)
	return try.Get(m.Instantiate(g))(m.t)
}

// product multiplies square matrices in the memory.
func (m *strictMachine) product(n, ld int) {
	b := try.Get(driver.OpenBLAS(m.Path(), m.first))(m.t)
	defer b.Close()
	b.Gemm(&driver.Gemm{M: n, N: n, K: n, A: m.memory, B: m.memory, C: m.memory, LDA: ld, LDB: ld, LDC: ld, Count: 1,
		Compute: driver.Compute32F})
}

// The strict driver reports each mistake, and nothing of what is right.
func TestStrict(t *testing.T) {
	if driver.Binding != "dlopen" {
		t.Skip("a program that is linked with a driver loads no other")
	}
	words := make([]uint32, strictBytes/4)
	pageable := unsafe.Pointer(&words[0])
	for _, c := range []struct {
		name, want string // no want: nothing is wrong
		do         func(*strictMachine)
	}{
		{"a step", "", func(m *strictMachine) {
			m.Upload(m.memory, unsafe.Add(m.host, strictBytes/2), strictBytes/2, m.other)
			m.Record(m.event, m.other)
			m.Follow(m.first, m.event)
			x := m.graph()
			m.launch(m.scale, driver.Launch{})
			m.LaunchGraph(x, m.first)
			m.Download(m.host, m.memory, strictBytes/2, m.first)
			if *m.word() == 0 {
				m.t.Error("a result is there before a wait")
			}
			m.product(8, 8)
			m.Synchronize(m.first)
			if *m.word() != 0 {
				m.t.Error("the result is not zero")
			}
			m.Free(m.memory)
		}},
		{"pageable memory", "not pinned", func(m *strictMachine) {
			m.Upload(m.memory, pageable, strictBytes, m.first)
		}},
		{"an upload is overwritten", "memory of the host changed", func(m *strictMachine) {
			m.Upload(m.memory, m.host, strictBytes, m.first)
			*m.word()++
			m.Synchronize(m.first)
		}},
		{"an upload is overwritten after an earlier event", "memory of the host changed", func(m *strictMachine) {
			m.Record(m.event, m.first)
			m.Upload(m.memory, m.host, strictBytes, m.first)
			m.Wait(m.event)
			*m.word()++
			m.Synchronize(m.first)
		}},
		{"pinned memory is freed under a copy", "being copied", func(m *strictMachine) {
			m.Upload(m.memory, m.host, strictBytes, m.first)
			m.FreeHost(m.host)
		}},
		{"a copy beyond its memory", "4 bytes beyond an allocation of 256", func(m *strictMachine) {
			m.Upload(m.memory+4, m.host, strictBytes, m.first)
		}},
		{"a fill beyond its memory", "beyond an allocation", func(m *strictMachine) {
			m.Fill(m.memory, 0, strictBytes, m.first)
		}},
		{"an address after its memory", "parameter 0 is an address in no allocation", func(m *strictMachine) {
			m.launch(m.scale, driver.Launch{Values: [driver.MaxParameters]uint64{uint64(m.memory) + strictBytes}})
		}},
		{"an event that was never recorded", "never recorded", func(m *strictMachine) { m.Wait(m.event) }},
		{"a stream waits for it", "never recorded", func(m *strictMachine) { m.Follow(m.first, m.event) }},
		{"the time of events without a wait", "nobody waited for", func(m *strictMachine) {
			m.launch(m.scale, driver.Launch{})
			m.Record(m.event, m.first)
			m.Elapsed(m.event, m.event)
		}},
		{"two streams", "another stream uses the memory", func(m *strictMachine) {
			m.Upload(m.memory, m.host, strictBytes, m.other)
			m.launch(m.scale, driver.Launch{})
		}},
		{"memory is freed under a kernel", "while a stream has work", func(m *strictMachine) {
			m.launch(m.scale, driver.Launch{})
			m.Free(m.memory)
		}},
		{"an allocation in a recording", "cuMemAlloc in a recording", func(m *strictMachine) {
			m.BeginCapture(m.first)
			m.Alloc(8)
			if _, err := m.EndCapture(m.first); !driver.Refused(err) {
				m.t.Errorf("the recording is not spoiled: %v", err)
			}
		}},
		{"a wait in a recording", "cuStreamSynchronize in a recording", func(m *strictMachine) {
			m.BeginCapture(m.first)
			m.Synchronize(m.first)
			m.EndCapture(m.first)
		}},
		{"an upload in a recording", "cuMemcpyHtoDAsync in a recording", func(m *strictMachine) {
			m.BeginCapture(m.first)
			m.Upload(m.memory, m.host, strictBytes, m.first)
			m.EndCapture(m.first)
		}},
		{"a product in a recording", "without memory for cuBLAS", func(m *strictMachine) {
			m.BeginCapture(m.first)
			m.product(8, 8)
			m.EndCapture(m.first)
		}},
		{"a graph outlives its memory", "a graph uses memory that was freed: scale", func(m *strictMachine) {
			x := m.graph()
			m.Free(m.memory)
			m.LaunchGraph(x, m.first)
		}},
		{"too many threads", "blocks of 257 threads, at most 256", func(m *strictMachine) {
			m.launch(m.scale, driver.Launch{Threads: 257})
		}},
		{"no blocks", "a grid of 1, 0, 1 blocks", func(m *strictMachine) {
			m.launch(m.scale, driver.Launch{Grid: [3]uint32{1, 0, 1}})
		}},
		{"shared memory that was not allowed", "not allowed before", func(m *strictMachine) {
			m.launch(m.match, driver.Launch{Shared: 17 << 10})
		}},
		{"it is allowed", "", func(m *strictMachine) {
			m.Allow(m.match, 17<<10)
			m.launch(m.match, driver.Launch{Shared: 17 << 10})
			m.Synchronize(m.first)
		}},
		{"more blocks at once than registers", "133 blocks at once, the GPU holds 132", func(m *strictMachine) {
			m.launch(m.match, driver.Launch{Grid: [3]uint32{132, 1, 1}, Together: true})
			m.launch(m.match, driver.Launch{Grid: [3]uint32{133, 1, 1}, Together: true})
		}},
		{"matrices beyond their memory", "beyond an allocation", func(m *strictMachine) { m.product(9, 9) }},
		{"rows that overlap", "leading dimension 7", func(m *strictMachine) { m.product(8, 7) }},
		{"PTX of a later GPU", "PTX for compute capability 12.0", func(m *strictMachine) {
			m.LoadModule([]byte(strings.Replace(strictPTX, "sm_80", "sm_120", 1)))
		}},
		{"a kernel without a row", "other: no row in registers.tsv", func(m *strictMachine) {
			m.LoadModule([]byte(strings.ReplaceAll(strictPTX, "scale", "other")))
		}},
		{"another thread", "on a thread without the context", func(m *strictMachine) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				m.Alloc(8)
			}()
			<-done
		}},
		{"what is left", "released with 2 allocations", func(m *strictMachine) {
			m.Alloc(8)
			m.Release(0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStrict(t, func(m *strictMachine) {
				c.do(m)
				got := emulator.Violations(t)
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("reported %q, want %q", got, c.want)
				}
			})
		})
	}
}
