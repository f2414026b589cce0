package training

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Steps that have a processor for less than half of their time are told of once, and what comes between steps, which
// takes time without a processor, is none of theirs.
func TestAttention(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		share float64
		ranks bool
		want  string
	}{{1.9, false, ""}, {0.55, true, ""}, {0.45, false, "this machine; steps"}, {0.1, true, "another rank is late"}} {
		now := time.Hour
		a := attention{processor: func() time.Duration { return now }}
		var said []string
		for range 400 {
			took := time.Duration(draw.IntN(200)) * time.Millisecond
			now += time.Duration(c.share * float64(took))
			if err := a.step(took, c.ranks); err != nil {
				said = append(said, err.Error())
			}
			if draw.IntN(9) == 0 { // a validation, of two processors
				a.last = 0
				now += time.Minute
			}
		}
		if c.want == "" && len(said) > 0 || c.want != "" && (len(said) != 1 || !strings.Contains(said[0], c.want)) {
			t.Errorf("share %v: %q", c.share, said)
		}
	}
	if err := new(attention).step(time.Hour, true); err != nil {
		t.Error(err)
	}
}
