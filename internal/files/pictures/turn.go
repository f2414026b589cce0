package pictures

import "context"

// maxSent bounds the bytes that a picture from outside takes when it is decoded.
const maxSent = 300 << 20

// Turn decodes pictures from outside one at a time, as each takes memory.
type Turn struct{ busy chan struct{} }

// NewTurn returns one that is free.
func NewTurn() *Turn { return &Turn{make(chan struct{}, 1)} }

// Decode waits until no other picture is worked on, decodes one, and calls use with it or with the error of Decode.
// When ctx ends, its error is returned and use is not called.
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
