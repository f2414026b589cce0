package device

import (
	"errors"
	"testing"

	"vsetrain/internal/system/options"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		key string // of the error, empty for none
		set func(*Options)
	}{
		{"", func(*Options) {}},
		{"", func(o *Options) { o.Kind, o.Index, o.Resident, o.Capture = "cuda", 3, "always", "never" }},
		{"", func(o *Options) { o.Kind = "cpu" }},
		{"precision", func(o *Options) { o.Kind, o.Precision = "cpu", "tf32" }},
		{"index", func(o *Options) { o.Kind, o.Index = "cpu", 1 }},
		{"index", func(o *Options) { o.Index = -1 }},
		{"resident", func(o *Options) { o.Kind, o.Resident = "cpu", "always" }},
		{"resident", func(o *Options) { o.Resident = "on" }},
		{"capture", func(o *Options) { o.Capture = "always" }},
	} {
		o := DefaultOptions()
		c.set(&o)
		err := o.Validate()
		var bad *options.Error
		if c.key == "" && err != nil || c.key != "" && (!errors.As(err, &bad) || bad.Key != c.key) {
			t.Errorf("%+v: %v, want an error about %q", o, err, c.key)
		}
	}
}
