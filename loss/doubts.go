package loss

import (
	"fmt"

	"vsetrain/internal/system/options"
)

// Doubts returns the constants of the loss that are beyond the range of what they are compared with, so that a part of
// the loss never or always acts. The scores of the network differ by at most span, and pairs is the size of a batch; 0
// means unknown. Keys are relative to "loss".
func (o *Options) Doubts(span float64, pairs int) (all []*options.Error) {
	t := registry[o.Name]
	if limit := span; span > 0 && t.hinges != nil {
		limit = t.hinges(span)
		all = append(all, beyond("margin", o.Margin, limit, "every hinge is active then, whatever the margin")...)
	}
	if t.doubts != nil {
		all = append(all, t.doubts(o, span, pairs)...)
	}
	return all
}

// beyond doubts a constant that is not below a limit (0 for none); then says what happens.
func beyond(key string, value, limit float64, then string) []*options.Error {
	if limit == 0 || value < limit {
		return nil
	}
	return []*options.Error{{Key: key, Found: fmt.Sprint(value), Remedy: then,
		Expected: fmt.Sprintf("less than %.4g, the most by which scores differ", limit)}}
}

// even doubts a temperature that is not below span.
func even(key string, temperature, span float64) []*options.Error {
	return beyond(key, temperature, span, "all negatives count nearly alike then")
}

// asTheyAre is the limit of hinges for losses that take hinges of the scores themselves.
func asTheyAre(span float64) float64 { return span }

// WarmsUp reports whether the loss begins with warm-up epochs, in another form. LSH, for example, has the same form in
// them.
func (o *Options) WarmsUp() bool {
	return o.WarmupEpochs > 0 && !registry[o.Name].sum && !registry[o.Name].noWarmUp
}

// Unacted returns a remark for the name of the loss if a run has trained only warm-up epochs, otherwise "".
func (o *Options) Unacted(epochs float64) string {
	if o.WarmsUp() && epochs > 0 && epochs <= float64(o.WarmupEpochs) {
		return " (warm-up only)"
	}
	return ""
}
