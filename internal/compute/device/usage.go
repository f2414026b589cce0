package device

// Usage is how a device is used at this moment, by all programs. A number that the device does not tell is -1.
type Usage struct {
	Used, Total int64 // bytes of memory
	Busy        int   // per cent of the last second, or less, in which it computed
	Celsius     int
	Watts       float64
}

// UsageReporter is implemented by devices that tell how they are used.
type UsageReporter interface {
	// Usage takes a millisecond or so; false where the device does not tell.
	Usage() (Usage, bool)
}
