package main

import "testing"

// An angle of 0 is said in words: 0.0e+00 would be a bound that nobody computed.
func TestSubspaceText(t *testing.T) {
	for angle, want := range map[float64]string{
		0:       "the exact subspace",
		2.34e-8: "subspace within 2.3e-08 radians of the exact one",
		1e-300:  "subspace within 1.0e-300 radians of the exact one",
	} {
		if got := subspaceText(angle); got != want {
			t.Errorf("%g: %q, want %q", angle, got, want)
		}
	}
}
