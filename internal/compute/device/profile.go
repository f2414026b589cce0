package device

// Profiler is implemented by devices whose kernels run asynchronously, so that the device has to time them.
type Profiler interface {
	// Profile returns the work that f gave the device, in order, without copies that run concurrently with the kernels.
	// f must not record or replay.
	Profile(f func() error) ([]Launch, error)
}

// Launch is one piece of work of a device: a kernel in its own language, a product of a library, a copy or a fill.
type Launch struct {
	Name         string
	At           string  // the name that Namer.At gave
	Milliseconds float64 // from its beginning to its end
}
