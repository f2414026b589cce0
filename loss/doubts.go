package loss

import (
	"fmt"

	"vsetrain/internal/system/options"
)

// Doubts are the constants of the loss that reach beyond what they are compared with, so that a part of the loss never
// acts or always does: the scores of the network differ by span at most, and a batch has that many pairs; 0 is unknown.
// Keys are those below "loss".
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

// beyond is the doubt about a constant that is not below a limit, 0 where there is none; then says what happens.
func beyond(key string, value, limit float64, then string) []*options.Error {
	if limit == 0 || value < limit {
		return nil
	}
	return []*options.Error{{Key: key, Found: fmt.Sprint(value), Remedy: then,
		Expected: fmt.Sprintf("less than %.4g, the most by which scores differ", limit)}}
}

// even is the doubt about a temperature.
func even(key string, temperature, span float64) []*options.Error {
	return beyond(key, temperature, span, "all negatives count nearly alike then")
}

// asTheyAre is the limit of hinges of scores.
func asTheyAre(span float64) float64 { return span }

// WarmsUp reports whether the loss begins with epochs in another form, its warm-up: LSH, for one, is the same in them.
func (o *Options) WarmsUp() bool {
	return o.WarmupEpochs > 0 && !registry[o.Name].sum && !registry[o.Name].noWarmUp
}

// Unacted is what is said after the name of the loss of a run that trained that many epochs, all of them of its
// warm-up, and "" where the loss itself has acted, or nothing has yet.
func (o *Options) Unacted(epochs float64) string {
	if o.WarmsUp() && epochs > 0 && epochs <= float64(o.WarmupEpochs) {
		return " (warm-up only)"
	}
	return ""
}
