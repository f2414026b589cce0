package pictures

import "context"

// maxSent bounds the bytes that decoding an uploaded picture takes.
const maxSent = 300 << 20

// Turn decodes uploaded pictures one at a time, because each takes memory.
type Turn struct{ busy chan struct{} }

// NewTurn returns a Turn.
func NewTurn() *Turn { return &Turn{make(chan struct{}, 1)} }

// Decode waits until no other picture is in use, decodes one, and calls use with the picture or the error of Decode.
// When ctx ends, Decode returns its error without calling use.
func (t *Turn) Decode(ctx context.Context, b []byte, use func(*RGB, error) error) error {
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p, err := Decode(ctx, b, maxSent)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return use(p, err)
}
