package device

// Recorder is implemented by devices that can record kernel calls and do all of them again with one command, and that
// copy results to the host while kernels run.
//
// A recording keeps the addresses and numbers its kernels were called with. What changes from step to step has to lie
// in device memory: the inputs, the scalars of the optimiser, the counter of dropout, and the lengths of sequences,
// packed or one after the other. So the lengths that a Recorder is given may be Bounded: Host says how many rows and
// steps memory has room for, and the values in device memory where the sequences lie and which rows hold something. The
// rows of each image that Pairs and Matching work on have that room too. In the rows behind, values are finite and
// gradients zero where a sum over rows may read them; kernels see to it if it is so in what they are given.
type Recorder interface {
	// Record calls f, whose kernel calls are recorded instead of run. f may move nothing between host and device, may
	// not wait and may not allocate: the first such call is the error, and nothing has happened.
	Record(f func()) (Recording, error)
	// Replay does what was recorded, in the order of other calls.
	Replay(Recording)
	// Forget releases a recording.
	Forget(Recording)
	// Generation changes when memory of the device's own that recordings use has moved: recordings made before must not
	// be replayed.
	Generation() int

	// DropoutPadded is Dropout (but for First) of sequences that are padded: X and Y are rows of width values, as many
	// for each step as there are sequences, the steps from the given one on. A row that has a word takes the place that
	// it would have were the sequences packed by lengths; the others become zero.
	DropoutPadded(a DropoutArgs, lengths Ints, width, step int)

	// Guard sets the clip coefficient to NaN, with which Adam leaves everything as it is, unless it and the losses are
	// finite. A loss may be absent.
	Guard(coef, norm View, losses ...View)
	// Fetch begins to copy Float views to the host, behind the kernels called before. Fetched waits for the copy and
	// returns the values, one view after the other, valid until the next Fetch of the same slot. There are FetchSlots
	// slots.
	Fetch(slot int, views ...View)
	Fetched(slot int) ([]float32, error)
}

// DropoutPadded declares the views of that kernel.
func (c *Checker) DropoutPadded(a *DropoutArgs, lengths *Ints, width, step int) {
	c.positive("width sequences", width, len(lengths.Host))
	a.Views(c)
	c.packed("lengths", lengths, anyLength)
	if step < 0 || a.Y.N%(width*len(lengths.Host)) != 0 {
		c.refuse("%d values from step %d, expected rows of %d for %d sequences", a.Y.N, step, width, len(lengths.Host))
	}
}

// Guard declares the views of that kernel.
func (c *Checker) Guard(coef, norm *View, losses []View) {
	c.floats("coef", coef, 1)
	c.floats("norm", norm, 1)
	for i := range losses {
		c.optional("loss", &losses[i], 1)
	}
}

// Fetch declares the views that are copied and returns the number of their elements.
func (c *Checker) Fetch(views []View) (n int) {
	for i := range views {
		n += c.whole("view", &views[i])
	}
	return n
}

// FetchSlots is how many Fetches may be on their way.
const FetchSlots = 2

// Recording is what a Recorder recorded.
type Recording any

// Namer is implemented by devices whose kernels run behind their calls: what fails is then said with what it belongs
// to.
type Namer interface {
	// At names what the calls that follow belong to, such as a node of a graph with its shapes; empty is nothing in
	// particular. A recording belongs to what was said before Record.
	At(what string)
}

// Streamer is implemented by devices that can copy values of the host to their memory while kernels run.
type Streamer interface {
	// StreamFloats is UploadFloats for large inputs that come with every step: the values reach the device beside the
	// kernels called before, and dst behind them. It takes device memory of the size of the largest such input of a
	// buffer.
	StreamFloats(dst View, src []float32)
	// NewStage allocates pinned memory for n values, as float16 with half, otherwise as float32.
	NewStage(n int, half bool) (Stage, error)
	// StreamStage is StreamFloats of the first n values of a stage, which float32 holds exactly. The device reads them
	// behind the call: the stage must not change before Fetched returns what a Fetch behind it began to copy, or before
	// Sync returns.
	StreamStage(dst View, s Stage, n int)
	// FreeStage releases a stage.
	FreeStage(Stage)
}

// Stage is memory of the host that a Streamer reads by itself. Any goroutine may write it.
type Stage interface {
	Floats() []float32 // nil with half
	Halves() []uint16  // bits of float16; nil without half
}

// Resident is implemented by devices with memory of their own, in which a data set can stay: tables of rows of one
// width, and lists of different lengths.
type Resident interface {
	// FreeMemory returns the bytes of memory that are free, and all there are.
	FreeMemory() (free, total int64, err error)
	// NewTable allocates room for n values, as float16 with half, otherwise as float32.
	NewTable(n int, half bool) (Table, error)
	// Store writes values from place at on. With half they are rounded to float16, without loss where they came from
	// one.
	Store(t Table, at int, values []float32)
	// Gather sets dst to rows index[0], index[1], … of the table taken as rows of the given width, and what is left of
	// dst to zero.
	Gather(dst View, t Table, index View, width int)
	// GatherLists sets dst [n, width], Int32, to lists index[0], index[1], … of those that lie one after the other in
	// values, list k from starts[k] to starts[k+1], and what is left of each row to zero. Of a longer list it takes the
	// beginning.
	GatherLists(dst, values, starts, index View, width int)
	// FreeTable releases a table.
	FreeTable(t Table)
}

// Gather declares the views of that kernel.
func (c *Checker) Gather(dst, index *View, width int) {
	c.positive("width", width)
	n := c.wholeInts("index", index)
	c.view("dst", dst, Float, n*width, Padded)
}

// GatherLists declares the views of that kernel.
func (c *Checker) GatherLists(dst, values, starts, index *View, width int) {
	c.positive("width", width)
	c.ints("dst", dst, c.wholeInts("index", index)*width)
	c.wholeInts("values", values)
	c.wholeInts("starts", starts)
}

// Table is memory that Gather reads.
type Table interface {
	Len() int     // values
	Bytes() int64 // of memory
}
