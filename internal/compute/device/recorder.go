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

	// Fetch begins to copy views to the host, after the kernels called before. Fetched waits for the copy and returns
	// the values, one view after the other, valid until the next Fetch of the same slot: of an Int32 view the bits.
	// There are FetchSlots slots.
	Fetch(slot int, views ...View)
	Fetched(slot int) ([]float32, error)
}

// Fetch declares the views that are copied and returns the number of their elements.
func (c *Checker) Fetch(views []View) (n int) {
	for i := range views {
		if v := &views[i]; v.Present() && v.Buf.DType() == Int32 {
			n += c.wholeInts("view", v)
		} else {
			n += c.whole("view", v)
		}
	}
	return n
}

// FetchSlots is how many Fetches may be on their way.
const FetchSlots = 2

// Recording is what a Recorder recorded.
type Recording any

// Namer is implemented by devices whose kernels run after their calls have returned: what fails is then said with what
// it belongs to.
type Namer interface {
	// At names what the calls that follow belong to, such as a node of a graph with its shapes; empty is nothing in
	// particular. A recording belongs to what was said before Record.
	At(what string)
}

// Streamer is implemented by devices that can copy values of the host to their memory while kernels run.
type Streamer interface {
	// StreamFloats is UploadFloats for large inputs that come with every step: the values reach the device beside the
	// kernels called before, and dst after them. It takes device memory of the size of the largest such input of a
	// buffer.
	StreamFloats(dst View, src []float32)
	// NewStage allocates pinned memory for n values, as float16 with half, otherwise as float32.
	NewStage(n int, half bool) (Stage, error)
	// StreamStage is StreamFloats of the first n values of a stage, which float32 holds exactly. The device reads them
	// after the call: the stage must not change before Fetched returns what a Fetch after it began to copy, or before
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
	// FreeTable releases a table.
	FreeTable(t Table)
}

// Gather sets Dst to rows Index[0], Index[1], … of a table of the device taken as rows of Width values, and what is
// left of Dst to zero.
type Gather struct {
	Dst   View
	Table Table
	Index View // int32
	Width int
}

func (a *Gather) Views(c *Checker) {
	c.positive("Width", a.Width)
	n := c.wholeInts("Index", &a.Index)
	c.view("Dst", &a.Dst, Float, n*a.Width, Padded)
}

// GatherLists sets Dst [n, Width] to lists Index[0], Index[1], … of those that lie one after the other in Values, list
// k from Starts[k] to Starts[k+1], and what is left of each row to zero; all are int32. Of a longer list it takes the
// beginning.
type GatherLists struct {
	Dst, Values, Starts, Index View
	Width                      int
}

func (a *GatherLists) Views(c *Checker) {
	c.positive("Width", a.Width)
	n := c.wholeInts("Index", &a.Index)
	c.ints("Dst", &a.Dst, n*a.Width)
	c.part("Values", &a.Values, Int32, 0, Whole, n*a.Width)
	c.part("Starts", &a.Starts, Int32, 0, Whole, 2*n)
}

// Table is memory that Gather reads.
type Table interface {
	Len() int     // values
	Bytes() int64 // of memory
}

// Guard sets Coefficient[0], the coefficient of clipping, to NaN, with which Adam leaves everything as it is, unless
// it, Norm[0] and the losses are finite. A loss may be absent.
type Guard struct {
	Coefficient, Norm View
	Losses            []View
}

func (a *Guard) Views(c *Checker) {
	c.floats("Coefficient", &a.Coefficient, 1)
	c.floats("Norm", &a.Norm, 1)
	for i := range a.Losses {
		c.optional("Losses", &a.Losses[i], 1)
	}
}
