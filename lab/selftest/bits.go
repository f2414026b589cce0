package selftest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/run/bench"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/placement"
	"vsetrain/models"
)

// The arithmetic of the kernels is that of IEEE 754 and every sum has one order, so the bits of a training in fp32 on
// products of vsetrain follow from the PTX alone: a GPU of any model must give those that the PTX gives when a
// processor executes it (lab/emulator/ptx). Each sum and product of the PTX is rounded by
// itself (.rn), so its compiler may not make one rounding of two. The kernels on tensor cores (*_sm80.cu) are excluded:
// PTX leaves the order and the rounding of their sums open. A training in fp32 takes none of them.

// Bits are the results of a small training, as numbers that no rounding passes.
type Bits struct {
	Network string `json:"network"` // with its text encoder
	// Start is of the parameters before the first step: the host computes them, so a difference is none of the GPU.
	Start  string   `json:"start"`
	Losses []string `json:"losses"` // float32 of every step, in hexadecimal
	End    string   `json:"end"`    // of the parameters behind the last step
}

func (b Bits) String() string {
	return strings.Join(append([]string{b.Network, b.Start, b.End}, b.Losses...), " ")
}

//go:embed bits.txt
var predictedBits string

// bitSteps is how many steps such a training has: of each of its batches one that is started kernel by kernel, and one
// that is recorded and launched as a graph.
const bitSteps = 2 * bench.SyntheticBatches

// bitNetworks are the networks with their text encoders.
func bitNetworks() (names []string) {
	for _, n := range models.NamesWhere(func(models.Traits) bool { return true }) {
		o := models.DefaultOptions()
		o.Network = n
		for _, encoder := range o.Traits().TextEncoders {
			names = append(names, n+"-"+encoder)
		}
	}
	slices.Sort(names)
	return names
}

// bitConfig is the small training of a network of bitNetworks.
func bitConfig(name string) *config.Config {
	network, encoder, _ := strings.Cut(name, "-")
	c := config.Default()
	c.Seed = 11
	c.Model.Network, c.Model.TextEncoder, c.Model.EmbedDim, c.Model.WordDim = network, encoder, 32, 12
	c.Model.SGRAF.SimDim, c.Model.CHAN.Heads = 8, 4
	c.Model.VSRN.Caption = false // its decoder has sizes of its own, 512 and 2000, which take minutes on a processor
	b := &c.Model.Bert
	b.Layers, b.Hidden, b.Heads, b.Intermediate, b.Positions = 2, 24, 3, 40, 64
	c.Train.Batch, c.Optim.LR = 4, 1e-3
	c.Device = device.Options{Kind: "cuda", Threads: 1, Precision: "fp32", Capture: "auto", Resident: "auto"}
	return &c
}

// trainBits trains a network of bitNetworks on a device.
func trainBits(ctx context.Context, dev func() (device.Device, error), network string) (out Bits, err error) {
	c := bitConfig(network)
	out.Network = network
	b, err := bench.Open(ctx, bench.Request{Config: c, Regions: 4, Feature: 24, Vocab: 50, Now: time.Now}, dev)
	if err != nil {
		return out, err
	}
	defer b.Close()
	if out.Start, err = sumOf(b.Setup); err != nil {
		return out, err
	}
	for range bitSteps {
		x, err := b.Next()
		if err != nil {
			return out, err
		}
		r, err := b.Step.Run(x, c.Optim.LR, false)
		if err != nil {
			return out, fmt.Errorf("step %d: %w", len(out.Losses)+1, err)
		}
		out.Losses = append(out.Losses, fmt.Sprintf("%08x", math.Float32bits(float32(r.Loss))))
	}
	out.End, err = sumOf(b.Setup)
	return out, err
}

// sumOf is a checksum of the parameters, in float32, and of what is stored beside them.
func sumOf(b *placement.Setup) (string, error) {
	p := b.Model.Instance.Params
	h := sha256.New()
	for _, v := range []device.View{p.Values(), p.State()} {
		if v.N == 0 {
			continue
		}
		x := make([]float32, v.N)
		b.Device.DownloadFloats(x, v)
		if err := binary.Write(h, binary.LittleEndian, x); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), b.Device.Sync()
}

// predictions are those that the PTX gives.
func predictions() (all []Bits) {
	for line := range strings.Lines(predictedBits) {
		if f := strings.Fields(line); len(f) > 3 {
			all = append(all, Bits{f[0], f[1], f[3:], f[2]})
		}
	}
	return all
}

// Difference says where bits part from those that are predicted, "" where they do not.
func (b Bits) Difference(predicted Bits) string {
	if b.Start != predicted.Start {
		return "the host draws other first weights, so nothing follows for the GPU (predicted on linux/amd64)"
	}
	for i, l := range b.Losses {
		if i >= len(predicted.Losses) || l != predicted.Losses[i] {
			return fmt.Sprintf("the loss of step %d is another one: %s, predicted %s", i+1, readBits(l),
				readBits(append(predicted.Losses, make([]string, i+1)...)[i]))
		}
	}
	if b.End != predicted.End {
		return fmt.Sprintf("the parameters behind step %d are others, the losses are not", len(b.Losses))
	}
	return ""
}

func readBits(s string) string {
	var u uint32
	if _, err := fmt.Sscanf(s, "%x", &u); err != nil {
		return "none"
	}
	return fmt.Sprintf("%.9g (%s)", math.Float32frombits(u), s)
}

// CompareBits trains every network on a GPU, on own products, and tells of each how it differs from the prediction,
// with "" for one that does not.
func CompareBits(ctx context.Context, getenv func(string) string, each func(network, difference string)) error {
	lib, _ := driver.Search("/", getenv)
	open := func() (device.Device, error) { return placement.OpenGPU(lib, cuda.Options{}) }
	predicted := map[string]Bits{}
	for _, p := range predictions() {
		predicted[p.Network] = p
	}
	for _, n := range bitNetworks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := trainBits(ctx, open, n)
		if err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
		want, ok := predicted[n]
		if !ok {
			return fmt.Errorf("%s: there is no prediction", n)
		}
		each(n, got.Difference(want))
	}
	return nil
}
