package cpu

import "testing"

// SmallPanels makes several panels of factored gradients as small as in tests.
func SmallPanels(t *testing.T) {
	usual := panelFloats
	panelFloats = 16_384
	t.Cleanup(func() { panelFloats = usual })
}
