package device

// Usage is the current load of a device by all programs. A number that the device does not report is -1.
type Usage struct {
	Used, Total int64 // bytes of memory
	Busy        int   // percentage of the last second, or less, in which the device computed
	Celsius     int
	Watts       float64
}

// UsageReporter is implemented by devices that report their load.
type UsageReporter interface {
	// Usage returns the load, in about a millisecond, or false if the device does not report it.
	Usage() (Usage, bool)
}
