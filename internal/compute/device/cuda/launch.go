package cuda

import (
	"fmt"
	"math"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/kernels"
)

// function is a kernel of the PTX. The first start of a kernel loads its module, which the driver then compiles: a
// network uses only a third or half of the kernels.
type function struct {
	kernels.Entry
	handle   driver.Function // 0: its module is not loaded
	module   *module
	written  uint64 // parameters that it may write through, a bit each
	shared   int    // bytes of dynamic shared memory that a block may have
	launched int    // how often; a recorded launch counts once
}

// module is the PTX of one source file.
type module struct {
	kernels.Module
	handle    driver.Module // 0: not loaded
	functions []*function
}

// tf32 ends the name of a kernel with TF32 operands instead of bfloat16.
const tf32 = "_tf32"

// find lists the kernels of the PTX, and chooses those for the precision. It loads one module, so that a driver that
// cannot compile PTX fails now.
func (d *dev) find() error {
	all, err := kernels.Modules()
	if err != nil {
		return err
	}
	written, err := kernels.Written()
	if err != nil {
		return err
	}
	d.functions = map[string]*function{}
	for _, m := range all {
		own := &module{Module: m}
		d.modules = append(d.modules, own)
		for _, e := range m.Entries {
			f := &function{Entry: e, module: own, written: written[e.Name]}
			own.functions = append(own.functions, f)
			d.functions[e.Name] = f
		}
	}
	for name, f := range d.functions {
		if of, ok := strings.CutSuffix(name, tf32); ok && d.tensor == tensorTF32 {
			d.functions[of] = f
		}
	}
	return d.load(d.functions["guard"].module)
}

// load loads a module unless it is loaded, on the thread of the context.
func (d *dev) load(m *module) (err error) {
	if m.handle != 0 {
		return nil
	}
	if m.handle, err = d.drv.LoadModule(m.PTX); err != nil {
		return fmt.Errorf("load the kernels %s: %w", m.Name, err)
	}
	for _, f := range m.functions {
		if f.handle, err = d.drv.Function(m.handle, f.Name); err != nil {
			return fmt.Errorf("kernel %s of %s: %w", f.Name, m.Name, err)
		}
	}
	return nil
}

// notLoaded is the error of a recording that starts a kernel whose module is not loaded.
type notLoaded struct{ *module }

func (e *notLoaded) Error() string { return "the kernels " + e.Name + " are not loaded" }

// launch starts the kernel of a command, whose parameters must have the types of the PTX.
func (f *function) launch(d *dev, c *command) error {
	if got := c.types[:c.count]; string(got) != f.Parameters {
		return fmt.Errorf("called with parameters %s, expected %s", got, f.Parameters)
	}
	if f.handle == 0 && d.capturing {
		return &notLoaded{f.module}
	}
	if err := d.load(f.module); err != nil {
		return err
	}
	if err := f.allow(d, int(c.launch.Shared)); err != nil {
		return err
	}
	f.launched++
	return d.drv.Launch(f.handle, &c.launch, d.stream)
}

// allow gives the blocks of a kernel at least that many bytes of dynamic shared memory.
func (f *function) allow(d *dev, shared int) error {
	if shared <= f.shared {
		return nil
	}
	if err := d.drv.Allow(f.handle, shared); err != nil {
		return err
	}
	f.shared = shared
	return nil
}

// resident is a kernel whose blocks have that many bytes of shared memory.
type resident struct {
	*function
	bytes int
}

// blocksAtOnce is how many blocks of a kernel the GPU holds at once, 0 if it cannot start kernels whose blocks wait for
// each other. It asks the driver once, but not during a recording: then it is 0 if it has not asked before.
func (d *dev) blocksAtOnce(k string, shared int) (blocks int) {
	f := d.functions[k]
	switch most := d.info.MaxSharedBytesPerBlock; {
	case !d.info.Together:
		d.bar(f.Name, "its blocks wait for each other, which this GPU does not support")
		return 0
	case shared > most:
		d.bar(f.Name, "its blocks need %d KB of shared memory, this GPU has %d", shared>>10, most>>10)
		return 0
	case d.apart:
		return 0
	}
	of := resident{f, shared}
	if n, asked := d.residents[of]; asked || d.recording {
		return n
	}
	asked := false
	d.run(func() error {
		if err := d.load(f.module); err != nil {
			return err
		}
		asked = true
		if f.allow(d, shared) != nil {
			return nil
		}
		if n, err := d.drv.Resident(f.handle, threads, shared); err == nil {
			blocks = n * d.info.Multiprocessors
		}
		err := d.tryTogether(blocks, shared)
		if driver.Refused(err) {
			d.stepByStep(err)
			blocks, err = 0, nil
		}
		return err
	})
	if d.wait() == nil && asked {
		d.residents[of] = blocks
	}
	if blocks == 0 {
		d.bar(f.Name, "its blocks wait for each other, and the driver does not start them at once")
	}
	return blocks
}

// tryTogether launches blocks that run at once and do nothing: on a GPU that is shared or watched, the driver may
// refuse what it claims to support.
func (d *dev) tryTogether(blocks, shared int) error {
	if blocks == 0 {
		return nil
	}
	f := d.functions["add_bias"]
	if err := d.load(f.module); err != nil {
		return err
	}
	if f.allow(d, shared) != nil {
		return nil
	}
	c := &command{kind: commandLaunch, function: f}
	c.launch = driver.Launch{Grid: [3]uint32{uint32(blocks), 1, 1}, Threads: threads, Shared: uint32(shared),
		Together: true}
	c.ptr(0, 0).flag(true).long(0).int(0).long(0, 0)
	return d.drv.Launch(f.handle, &c.launch, d.stream)
}

// stepByStep makes the device compute recurrences step by step.
func (d *dev) stepByStep(err error) {
	d.apart = true
	d.warn("recurrences are computed step by step, which takes longer, because the driver refuses kernels whose "+
		"blocks wait for each other: %v", err)
}

const threads = 256 // of a block, at most

// start begins the call of a kernel by its name; parameters follow in the order of its declaration. A call without
// blocks is not made.
func (d *dev) start(k string, width, x, y, z int) *command {
	c := &d.dropped
	if *c = (command{}); x*y*z > 0 {
		c = d.next().calls(d.functions[k])
		c.owner, c.written = d, c.function.written
	}
	c.launch.Threads, c.launch.Grid = uint32(width), [3]uint32{uint32(x), uint32(y), uint32(z)}
	return c
}

// calls makes a command the launch of a function.
func (c *command) calls(f *function) *command {
	c.kind, c.function = commandLaunch, f
	return c
}

// each begins the call of an elementwise kernel over n > 0 values.
func (d *dev) each(k string, n int) *command { return d.start(k, threads, blocksFor(n), 1, 1) }

// launchVec4 begins the call of an elementwise kernel over n > 0 values that works on four at a time after the first
// head values.
func (d *dev) launchVec4(k string, head, n int) *command { return d.each(k, max((n-head+3)/4, head)) }

// vectors begins the call of an elementwise kernel on vectors of the same length, four values at a time; the first is
// its result. The kernel's last parameters are head and length.
func (d *dev) vectors(k string, of ...device.View) (c *command, head int) {
	var all [4]driver.Ptr
	for i, v := range of {
		all[i] = d.pointer(v)
	}
	n, p := of[0].N, all[:len(of)]
	head = headOf(n, p...)
	return d.launchVec4(k, head, n).ptr(p...), head
}

// headOf is the number of values before the first one at a multiple of 16 bytes, or n if the vectors are aligned
// differently. Vectors may be absent.
func headOf(n int, vectors ...driver.Ptr) int {
	first := vectors[0]
	for _, p := range vectors {
		if p != 0 && (p^first)&15 != 0 {
			return n
		}
	}
	return min(n, int(-(first/4))&3)
}

// inFours reports whether rows of the given width can be read four values at a time: in all matrices they begin at
// multiples of 16 bytes.
func inFours(width int, matrices ...driver.Ptr) bool {
	all := driver.Ptr(4 * width)
	for _, p := range matrices {
		all |= p
	}
	return all&15 == 0
}

// blocksFor is the number of blocks of a loop over n values, which takes several rounds if needed.
func blocksFor(n int) int { return min((n+threads-1)/threads, 2048) }

// rows begins the call of a kernel with one block for each of n rows of the given width.
func (d *dev) rows(k string, n, width int) *command {
	block := threads
	switch {
	case width <= 64:
		block = 32
	case width <= 256:
		block = 128
	}
	return d.start(k, block, n, 1, 1)
}

func (c *command) parameter(t byte, v uint64) *command {
	c.types[c.count], c.launch.Values[c.count] = t, v
	c.count++
	return c
}

// shares gives each block bytes of dynamic shared memory.
func (c *command) shares(bytes int) *command {
	c.launch.Shared = uint32(bytes)
	return c
}

// noted leaves it to the caller to note what the kernel reads and writes (copies).
func (c *command) noted() *command {
	c.owner, c.written = nil, 0
	return c
}

// of passes the addresses of views.
func (c *command) of(views ...device.View) *command {
	if c.owner == nil { // not made
		return c
	}
	var all [driver.MaxParameters]driver.Ptr
	for i, v := range views {
		all[i] = c.owner.pointer(v)
	}
	return c.ptr(all[:len(views)]...)
}

func (c *command) ptr(p ...driver.Ptr) *command {
	if d := c.owner; d != nil && d.bf16.alone {
		for i, v := range p { // before wrote, since a kernel may write where it reads
			if c.written>>(c.count+i)&1 == 0 {
				d.reads(v)
			}
		}
	}
	for _, v := range p {
		if c.written>>c.count&1 != 0 {
			c.owner.wrote(v)
		}
		c.parameter('p', uint64(v))
	}
	return c
}

// long passes numbers that may exceed 2³¹.
func (c *command) long(n ...int) *command {
	for _, v := range n {
		c.parameter('p', uint64(v))
	}
	return c
}

func (c *command) int(n ...int) *command {
	for _, v := range n {
		if v > math.MaxInt32 || v < math.MinInt32 {
			panic(fmt.Sprintf("cuda: %s: size %d, expected at most 2³¹-1", c.function.Name, v))
		}
		c.parameter('i', uint64(uint32(int32(v))))
	}
	return c
}

func (c *command) word(w ...uint32) *command {
	for _, v := range w {
		c.parameter('i', uint64(v))
	}
	return c
}

func (c *command) flag(b bool) *command {
	if b {
		return c.int(1)
	}
	return c.int(0)
}

func (c *command) float(x ...float64) *command {
	for _, v := range x {
		c.parameter('f', uint64(math.Float32bits(float32(v))))
	}
	return c
}
