package training

import (
	"math/rand/v2"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
)

// busyDevice is a device that was busy while steps were taken, and tells how much of the last second that was.
type busyDevice struct {
	device.Device
	now  time.Time
	busy []([2]time.Time) // from, to
}

func (d *busyDevice) Usage() (device.Usage, bool) {
	var busy time.Duration
	for _, b := range d.busy {
		from, to := b[0], b[1]
		if second := d.now.Add(-time.Second); from.Before(second) {
			from = second
		}
		if to.After(from) {
			busy += to.Sub(from)
		}
	}
	return device.Usage{Used: 7, Total: 9, Busy: int(busy / (10 * time.Millisecond))}, true
}

// However steps and pauses follow each other, a device that computes in all steps is never said to be idle, and is said
// to be busy where steps fill more than two seconds.
func TestUsageIsOfSteps(t *testing.T) {
	draw := rand.New(rand.NewPCG(51, 3))
	for n := range 300 {
		var g gauge
		d := &busyDevice{now: time.Unix(1e9, 0)}
		step := time.Duration(1+draw.IntN(1500)) * time.Millisecond / time.Duration(1+draw.IntN(100))
		told := 0
		for range 1 + draw.IntN(6) { // epochs
			d.now = d.now.Add(time.Duration(draw.IntN(4000)) * time.Millisecond) // validation, checkpoint
			began, last := d.now, -1
			for range 1 + draw.IntN(int(4*time.Second/step)+2) {
				d.busy = append(d.busy, [2]time.Time{d.now, d.now.Add(step)})
				d.now = d.now.Add(step)
				u := g.usage(d, d.now, step)
				if u == nil || u.Used != 7 {
					t.Fatalf("training %d: told %v", n, u)
				}
				if last = u.Busy; last >= 0 {
					told++
				}
				if last >= 0 && last < 80 {
					t.Errorf("training %d, steps of %v: %d %% of a device that is busy in every step", n, step, last)
				}
			}
			if last < 0 && d.now.Sub(began) > 2*time.Second+2*step {
				t.Errorf("training %d: %v of steps of %v, and not told", n, d.now.Sub(began), step)
			}
		}
	}
}
