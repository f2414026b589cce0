package main

import (
	"errors"

	"github.com/spf13/pflag"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/system/options"
)

// addDeviceFlags adds the flags that choose a device, with the values of o as defaults.
func addDeviceFlags(f *pflag.FlagSet, o *device.Options) {
	f.StringVar(&o.Kind, "device", o.Kind, "auto, cpu or cuda")
	f.StringVar(&o.Precision, "precision", o.Precision, "fp32, tf32, bf16 or fp64")
	f.IntVar(&o.Index, "gpu", o.Index, "which GPU, counted from 0")
	f.IntVar(&o.Threads, "threads", o.Threads, "CPU threads; 0 uses all processors")
}

// flagOfKey are the flags of addDeviceFlags that are not called as the options are.
var flagOfKey = map[string]string{"kind": "device", "index": "gpu"}

// checkDevice returns a usage error that names the first flag of addDeviceFlags that cannot be used.
func checkDevice(o *device.Options) error {
	err := o.ValidateFixed()
	var wrong *options.Error
	if !errors.As(err, &wrong) {
		return err
	}
	flag := *wrong
	if name := flagOfKey[flag.Key]; name != "" {
		flag.Key = name
	}
	return usagef("--%v", &flag)
}
