package pictures

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// One picture is worked on at a time; who waits may leave, and the next finds its place free.
func TestTurn(t *testing.T) {
	var b bytes.Buffer
	try.Do(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))))
	turn, busy := NewTurn(), errors.New("busy")
	for range 2 {
		err := turn.Decode(t.Context(), b.Bytes(), func(p *RGB, err error) error {
			ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer leave()
			other := turn.Decode(ctx, b.Bytes(), func(*RGB, error) error { return nil })
			if err != nil || p.Width != 3 || !errors.Is(other, context.DeadlineExceeded) {
				t.Errorf("%+v, %v; beside it %v", p, err, other)
			}
			return busy
		})
		if err != busy {
			t.Errorf("%v", err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := turn.Decode(ended, b.Bytes(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	err := turn.Decode(t.Context(), []byte("no picture"), func(_ *RGB, err error) error { return err })
	if err == nil {
		t.Error("what is no picture is decoded")
	}
}
