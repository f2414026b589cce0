//go:build !((linux || darwin) && (amd64 || arm64)) || nodl

package onnxruntime

import (
	"fmt"

	"vsetrain/internal/system/libraries"
)

type handle struct{}

// Open returns ErrNone.
func Open(string, func(string) string, int) (*Session, error) {
	return nil, fmt.Errorf("%w: %s", ErrNone, libraries.Unsupported())
}

// Run returns ErrNone.
func (s *Session) Run(string, Tensor, string) (Tensor, error) { return Tensor{}, ErrNone }

// Close does nothing.
func (s *Session) Close() {}
