package cuda

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/kernels"
)

// kernel is a CUDA kernel that this package calls, an index into kernelNames.
type kernel int

var kernelNames []string

// entryOf declares a kernel by its name in the PTX.
func entryOf(name string) kernel {
	kernelNames = append(kernelNames, name)
	return kernel(len(kernelNames) - 1)
}

// tensorEntries declares a kernel on tensor cores, one for each kind of operands (tensor).
func tensorEntries(name string) [3]kernel {
	return [3]kernel{tensorBF16: entryOf(name), tensorTF32: entryOf(name + "_tf32")}
}

// function is a kernel of the PTX. Its module is loaded when one of its kernels is first started: the driver compiles
// it then, and a network uses a third or half of them.
type function struct {
	handle     driver.Function // 0: its module is not loaded
	parameters string          // kernels.Entry
	module     *module
	shared     int // bytes of dynamic shared memory that a block may have
	launched   int // times; those of a recording count once
}

// module is the PTX of one source file, with its kernels that are declared.
type module struct {
	kernels.Module
	handle  driver.Module // 0: not loaded
	declare []kernel
}

// find finds every declared kernel in the PTX, and loads the module of one: a driver that cannot compile PTX says so
// now.
func (d *dev) find() error {
	all, err := kernels.Modules()
	if err != nil {
		return err
	}
	found := map[string]function{}
	for _, m := range all {
		own := &module{Module: m}
		d.modules = append(d.modules, own)
		for _, e := range m.Entries {
			found[e.Name] = function{parameters: e.Parameters, module: own}
		}
	}
	written, err := kernels.Written()
	if err != nil {
		return err
	}
	for k, name := range kernelNames {
		d.written = append(d.written, written[name])
		f, ok := found[name]
		if !ok {
			return fmt.Errorf("no kernel %s in the PTX", name)
		}
		f.module.declare = append(f.module.declare, kernel(k))
		d.functions = append(d.functions, f)
	}
	return d.load(d.functions[kernelGuard].module)
}

// load loads a module, on the thread of the context.
func (d *dev) load(m *module) (err error) {
	if m.handle, err = d.drv.LoadModule(m.PTX); err != nil {
		return fmt.Errorf("load the kernels %s: %w", m.Name, err)
	}
	for _, k := range m.declare {
		if d.functions[k].handle, err = d.drv.Function(m.handle, kernelNames[k]); err != nil {
			return fmt.Errorf("kernel %s of %s: %w", kernelNames[k], m.Name, err)
		}
	}
	return nil
}

// notLoaded is the error of a recording that starts a kernel whose module is not loaded, which cannot be recorded.
type notLoaded struct{ *module }

func (e *notLoaded) Error() string { return "the kernels " + e.Name + " are not loaded" }

// launch starts the kernel of a command whose parameters must be those of the PTX.
func (f *function) launch(d *dev, c *command) error {
	if got := c.types[:c.count]; string(got) != f.parameters {
		return fmt.Errorf("called with parameters %s, expected %s", got, f.parameters)
	}
	if f.handle == 0 {
		if d.capturing {
			return &notLoaded{f.module}
		}
		if err := d.load(f.module); err != nil {
			return err
		}
	}
	f.launched++
	return d.drv.Launch(f.handle, &c.launch, d.stream)
}

// resident is a kernel whose blocks have so many bytes of shared memory.
type resident struct {
	kernel
	shared int
}

// blocksAtOnce is how many blocks of a kernel the GPU holds at once, 0 where it cannot start one whose blocks wait for
// each other. The driver is asked once, and not while a recording is made: then it is 0 where it was not asked before.
func (d *dev) blocksAtOnce(k kernel, shared int) (blocks int) {
	if !d.info.Together || d.apart || shared > d.info.MaxSharedBytesPerBlock {
		return 0
	}
	of := resident{k, shared}
	if n, asked := d.residents[of]; asked || d.recording {
		return n
	}
	asked := false
	d.run(func() error {
		f := &d.functions[k]
		if f.handle == 0 {
			if err := d.load(f.module); err != nil {
				return err
			}
		}
		asked = true
		if shared > f.shared {
			if d.drv.Allow(f.handle, shared) != nil {
				return nil
			}
			f.shared = shared
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
	return blocks
}

// tryTogether launches blocks that run at once and do nothing: what the driver says of a GPU is not what it does where
// it is shared or watched.
func (d *dev) tryTogether(blocks, shared int) error {
	if blocks == 0 {
		return nil
	}
	f := &d.functions[kernelAddBias]
	if f.handle == 0 {
		if err := d.load(f.module); err != nil {
			return err
		}
	}
	if shared > f.shared {
		if d.drv.Allow(f.handle, shared) != nil {
			return nil
		}
		f.shared = shared
	}
	c := &command{kind: commandLaunch, kernel: kernelAddBias}
	c.launch = driver.Launch{Grid: [3]uint32{uint32(blocks), 1, 1}, Threads: threads, Shared: uint32(shared),
		Together: true}
	c.ptr(0, 0).flag(true).long(0).int(0).long(0, 0)
	return d.drv.Launch(f.handle, &c.launch, d.stream)
}

// stepByStep has recurrences computed step by step from now on.
func (d *dev) stepByStep(err error) {
	d.apart = true
	d.warn("recurrences are computed step by step, which takes longer: the driver starts no blocks that wait for each "+
		"other: %v", err)
}

const threads = 256 // of a block, at most

// start begins the call of a kernel; parameters follow in the order of its declaration.
func (d *dev) start(k kernel, width, x, y, z int) *command {
	c := d.next()
	c.kind, c.kernel = commandLaunch, k
	c.owner, c.written = d, d.written[k]
	c.launch.Threads, c.launch.Grid = uint32(width), [3]uint32{uint32(x), uint32(y), uint32(z)}
	return c
}

// each begins the call of an elementwise kernel over n > 0 values.
func (d *dev) each(k kernel, n int) *command { return d.start(k, threads, blocksFor(n), 1, 1) }

// fours begins the call of an elementwise kernel that works on four values at a time behind the first head of n > 0.
func (d *dev) fours(k kernel, head, n int) *command { return d.each(k, max((n-head+3)/4, head)) }

// headOf is the number of values of n in front of the first at a multiple of 16 bytes, of vectors that may be absent.
// Where they do not all come there together it is n.
func headOf(n int, vectors ...driver.Ptr) int {
	first := vectors[0]
	for _, p := range vectors {
		if p != 0 && (p^first)&15 != 0 {
			return n
		}
	}
	return min(n, int(-(first/4))&3)
}

// inFours reports whether rows of the given width can be read four values at a time: those of all matrices begin at
// multiples of 16 bytes.
func inFours(width int, matrices ...driver.Ptr) bool {
	all := driver.Ptr(4 * width)
	for _, p := range matrices {
		all |= p
	}
	return all&15 == 0
}

// blocksFor is the number of blocks of a loop over n values; the loop takes what is left in further rounds.
func blocksFor(n int) int { return min((n+threads-1)/threads, 2048) }

// rows begins the call of a kernel with one block for each of n rows of the given width.
func (d *dev) rows(k kernel, n, width int) *command {
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

// noted says that the caller itself notes what the kernel reads and writes (copies).
func (c *command) noted() *command {
	c.owner, c.written = nil, 0
	return c
}

func (c *command) ptr(p ...driver.Ptr) *command {
	if d := c.owner; d != nil && d.bf16.alone {
		for i, v := range p { // before what is written is forgotten, which may be the same
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

// long passes numbers that may pass 2³¹.
func (c *command) long(n ...int) *command {
	for _, v := range n {
		c.parameter('p', uint64(v))
	}
	return c
}

func (c *command) int(n ...int) *command {
	for _, v := range n {
		if v > math.MaxInt32 || v < math.MinInt32 {
			panic(fmt.Sprintf("cuda: %s: size %d, expected at most 2³¹-1", kernelNames[c.kernel], v))
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
