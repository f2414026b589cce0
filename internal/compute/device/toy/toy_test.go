package toy_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
	"vsetrain/internal/compute/device/devicetest"
	"vsetrain/internal/compute/device/toy"
)

func open(*testing.T) device.Device { return composed.Over(toy.New()) }

// The core by its definition, and every family as it is composed of the core.
func TestConformance(t *testing.T) { devicetest.Run(t, open) }

func TestGoldenKernels(t *testing.T) { devicetest.Golden(t, open) }
