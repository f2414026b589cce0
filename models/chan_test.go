package models

import (
	"errors"
	"testing"

	"vsetrain/internal/system/options"
	"vsetrain/lab/try"
)

// Options that cannot be used together are refused.
func TestCHANOptionsThatContradict(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"chan.heads": func(o *Options) { o.CHAN.Heads = 3 },
		"chan.mask_padding": func(o *Options) {
			o.CHAN.ImageEncoder, o.CHAN.Axis, o.CHAN.MaskPadding = "transformer", "batch", true
		},
		"text_encoder": func(o *Options) { o.TextEncoder = "gru" },
	} {
		o := DefaultOptions()
		o.Network, o.TextEncoder = CHAN, "bigru"
		try.Do(t, o.Validate())
		change(&o)
		var e *options.Error
		if err := o.Validate(); !errors.As(err, &e) || e.Key != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
