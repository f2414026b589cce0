package device

// Recorder is implemented by devices that can record kernel calls and replay them with one command, and that copy
// results to the host while kernels run.
//
// A recording keeps the addresses and parameters of its kernel calls. Values that change from step to step must be in
// device memory: the inputs, the scalars of the optimiser, the counter of dropout, and the lengths of sequences, packed
// or concatenated. So the lengths that a Recorder is given may be Bounded: Host says how many rows and steps the memory
// has capacity for, and the values in device memory say which rows are used. The rows of an image in the kernels of
// pairs.go and matching.go have this capacity too. In unused rows, values are finite, and gradients are zero where a
// sum over rows may read them; kernels keep this property if their operands have it.
type Recorder interface {
	// Record calls f and records its kernel calls instead of running them. f must not copy between host and device,
	// wait or allocate. If it does, Record returns the first such call as the error, and has recorded nothing.
	Record(f func()) (Recording, error)
	// Replay runs the recorded calls, in order with other calls.
	Replay(Recording)
	// Forget releases a recording.
	Forget(Recording)
	// Generation changes when scratch memory of the device that recordings use has moved. Earlier recordings must not
	// be replayed.
	Generation() int

	// Fetch starts to copy views to the host, after the kernels called before. Fetched waits for the copy and returns
	// the values, one view after the other, and the bits of Int32 views. They are valid until the next Fetch with the
	// same slot. There are FetchSlots slots.
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

// FetchSlots is the number of Fetches that may be pending.
const FetchSlots = 2

// Recording is what a Recorder recorded.
type Recording any

// Namer is implemented by devices whose kernels run asynchronously, to name in errors what a kernel belongs to.
type Namer interface {
	// At names what the following calls belong to, such as a node of a graph with its shapes, or nothing if empty. A
	// recording belongs to the name given before Record.
	At(what string)
}

// Streamer is implemented by devices that can copy values from the host to their memory while kernels run.
type Streamer interface {
	// StreamFloats is UploadFloats for the large inputs of a step. The values are copied to the device concurrently
	// with the kernels called before, and to dst after them. The device needs memory for the largest such input of a
	// buffer.
	StreamFloats(dst View, src []float32)
	// NewStage allocates pinned memory for n values, as float16 with half, otherwise as float32.
	NewStage(n int, half bool) (Stage, error)
	// StreamStage is StreamFloats of the first n values of a stage. The device reads them after the call: the stage
	// must not change until Fetched has returned the values of a later Fetch, or Sync has returned.
	StreamStage(dst View, s Stage, n int)
	// FreeStage releases a stage.
	FreeStage(Stage)
}

// Stage is pinned host memory that a Streamer reads. Any goroutine may write it.
type Stage interface {
	Floats() []float32 // nil with half
	Halves() []uint16  // bits of float16; nil without half
}

// Resident is implemented by devices whose memory can hold a data set: tables of rows of one width, and lists of
// different lengths.
type Resident interface {
	// FreeMemory returns the free and the total memory in bytes.
	FreeMemory() (free, total int64, err error)
	// NewTable allocates room for n values, as float16 with half, otherwise as float32.
	NewTable(n int, half bool) (Table, error)
	// Store writes values to a table, from element at on. A half table rounds them to float16, which is exact for
	// values that were float16.
	Store(t Table, at int, values []float32)
	// FreeTable releases a table.
	FreeTable(t Table)
}

// Gather sets Dst to rows Index[0], Index[1], … of a table with rows of Width values, and the rest of Dst to zero.
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

// GatherLists sets the rows of Dst [n, Width] to lists Index[0], Index[1], …, and the rest of each row to zero. List k
// is Values[Starts[k]:Starts[k+1]], cut to Width values. All are int32.
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
	Bytes() int64 // memory
}

// Guard sets Coefficient[0], the coefficient of clipping, to NaN unless it, Norm[0] and the losses are finite. With a
// coefficient of NaN, Adam changes nothing. A loss may be absent.
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
