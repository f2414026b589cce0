package device

// Profiler is implemented by devices whose kernels run after their calls have returned: they time what they start
// themselves.
type Profiler interface {
	// Profile returns what the device was given while f ran, in order, without what is streamed beside its kernels. f
	// must record and replay nothing.
	Profile(f func() error) ([]Launch, error)
}

// Launch is one piece of work of a device: a kernel in its own language, a product of a library, a copy or a fill.
type Launch struct {
	Name         string
	At           string  // what it belongs to (Namer)
	Milliseconds float64 // from its beginning to its end
}
