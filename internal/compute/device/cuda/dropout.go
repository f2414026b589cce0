package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// drops are the parameters of a dropout: factor 0 keeps everything.
type drops struct {
	step, numbers    driver.Ptr
	key0, key1, less uint32
	factor           float64
}

func (d *dev) drops(a device.DropoutParams) drops {
	if a.Rate == 0 {
		return drops{}
	}
	return drops{d.pointer(a.Step.View), d.pointer(a.Rows), a.Key.K0, a.Key.K1, uint32(a.Rate * (1 << 32)),
		1 / (1 - a.Rate)}
}

// drops adds the parameters to a command.
func (c *command) drops(p *drops) *command {
	return c.ptr(p.step, p.numbers).word(p.key0, p.key1, p.less).float(p.factor)
}

func (d *dev) Dropout(a device.Dropout) {
	p := d.drops(a.DropoutParams)
	y, x := d.pointer(a.Y), d.pointer(a.X)
	if n := a.Y.N; n > 0 {
		d.each("dropout", n/a.Width*((a.Width+3)/4)).ptr(y, x).drops(&p).flag(inFours(a.Width, y, x)).
			int(a.Width).long(n)
	}
}
