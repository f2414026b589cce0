package bench

import (
	"fmt"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/compute/device/cuda/null"
)

// openModel is a device with the properties of a GPU that is not there.
func openModel(name string, o device.Options) (device.Device, error) {
	g, err := model.Find(name)
	if err != nil {
		return nil, err
	}
	info := driver.Info{Name: g.Name, Major: g.Major, Minor: g.Minor, Multiprocessors: g.Multiprocessors,
		MaxSharedBytesPerBlock: g.Shared, Together: true, Memory: uint64(g.Memory)}
	return cuda.Open(cuda.Options{On: null.New(info), Precision: o.Precision})
}

// modelOf is the GPU of a name, or the one that a device calls itself after.
func modelOf(name, device string) (model.GPU, error) {
	if name != "" {
		return model.Find(name)
	}
	for _, n := range model.Names() {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(device, " ", "")), n) {
			return model.Find(n)
		}
	}
	return model.GPU{}, fmt.Errorf("there is no model of %s to put beside its times; "+
		"name one that is like it with --model: %s", device, strings.Join(model.Names(), ", "))
}

func batchOf(lengths []int32) model.Batch {
	sum, most := 0, int32(0)
	for _, n := range lengths {
		sum += int(n)
		most = max(most, n)
	}
	return model.Batch{Words: float64(sum) / float64(len(lengths)), Longest: float64(most)}
}
