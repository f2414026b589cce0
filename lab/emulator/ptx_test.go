//go:build !vsecu

// With the tag vsecu a program has the one driver that it was linked with, so these tests cannot open theirs.

package emulator_test

import (
	"math"
	"testing"
	"unsafe"

	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// ptx is a machine that executes the PTX of the planted kernels.
func ptx(t *testing.T) (m *machine, library string) {
	t.Helper()
	library = emulator.PlantedPTX(t)
	t.Setenv("VSETRAIN_EMULATOR", library)
	t.Cleanup(func() { emulator.Fused(t, library) })
	return start(t), library
}

// The mistakes that are found in sources are found in PTX.
func TestPlantedMistakesInPTX(t *testing.T) {
	_, library := ptx(t)
	for _, compared := range []bool{false, true} {
		if compared {
			emulator.Compare(t, library)
		}
		TestPlantedMistakes(t)
		TestProductInTF32(t)
		TestBlocksAtOnce(t)
	}
}

// run sets y to what a planted kernel makes of x and y, 32 values each.
func (m *machine) run(kernel string, y, x []float32) error {
	m.t.Helper()
	py, px := m.memory(32), m.memory(32)
	defer m.Free(py)
	defer m.Free(px)
	m.must(m.Upload(py, unsafe.Pointer(&y[0]), 128, m.stream))
	m.must(m.Upload(px, unsafe.Pointer(&x[0]), 128, m.stream))
	if err := m.launch(kernel, 1, 32, uint64(py), uint64(px)); err != nil {
		return err
	}
	m.must(m.Download(unsafe.Pointer(&y[0]), py, 128, m.stream))
	return m.Synchronize(m.stream)
}

// An instruction that is not that of the source shows where results are compared, and nowhere else.
func TestWrongInstruction(t *testing.T) {
	m, library := ptx(t)
	y, x := make([]float32, 32), make([]float32, 32)
	begin := func() {
		for i := range x {
			y[i], x[i] = 2, float32(i)
		}
	}
	const kernel = "planted_other_instruction"
	begin()
	if err := m.run(kernel, y, x); err != nil || y[5] != 3 {
		t.Errorf("alone: %v, %v, want 3", y[5], err)
	}
	emulator.Compare(t, library)
	begin()
	err := m.run(kernel, y, x)
	for _, says := range []string{"kernel planted_other_instruction, line ",
		"at byte 0 of an allocation of 128 the PTX leaves -2 (c0000000), the source 2 (40000000)"} {
		try.Fails(t, err, says)
	}
	emulator.Mend(t)
}

// A product and a sum are rounded once, as on a GPU, but for a comparison, in which they are rounded as the sources do.
func TestFusedArithmetic(t *testing.T) {
	m, library := ptx(t)
	x := make([]float32, 32)
	for i := range x {
		x[i] = 1 + float32(i)/4096
	}
	for _, compared := range []bool{false, true} {
		if compared {
			emulator.Compare(t, library)
		}
		y := make([]float32, 32)
		m.must(m.run("planted_fused", y, x))
		for i, v := range x {
			want := float32(math.FMA(float64(v), float64(v), -1))
			if compared {
				want = v * v
				want--
			}
			if math.Float32bits(y[i]) != math.Float32bits(want) {
				t.Errorf("compared %v: %v·%[2]v - 1 is %v, want %v", compared, v, y[i], want)
			}
		}
	}
}

// More threads than the PTX was compiled for are refused.
func TestThreadsBeyondTheLimit(t *testing.T) {
	m, _ := ptx(t)
	p := m.memory(512)
	try.Fails(t, m.launch("planted_two_writers", 1, 512, uint64(p)), "has 512 threads, .maxntid allows 256")
	emulator.Mend(t)
	m.must(m.Free(p))
}
