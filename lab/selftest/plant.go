package selftest

import (
	"cmp"
	"fmt"
	"runtime"

	"vsetrain/internal/compute/device/cuda/driver"
)

// planted are two kernels with a mistake each, those of the emulator's planted.cu: one element too many is written, and
// the barrier between writing and reading shared memory is left out.
const planted = `.version 7.0
.target sm_75
.address_size 64
.visible .entry planted_write_beyond(.param .u64 y, .param .u32 n) {
	.reg .pred %p;
	.reg .b32 %r<5>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [y];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.gt.s32 %p, %r2, %r1;
	@%p bra DONE;
	cvta.to.global.u64 %rd1, %rd1;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.b32 %r3, 0f3F800000;
	st.global.u32 [%rd3], %r3;
DONE:
	ret;
}
.visible .entry planted_missing_barrier(.param .u64 y, .param .u64 x) {
	.reg .b32 %r<4>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<12>;
	.shared .align 4 .b8 part[256];
	ld.param.u64 %rd1, [y];
	ld.param.u64 %rd2, [x];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4];
	mov.u64 %rd5, part;
	add.s64 %rd6, %rd5, %rd3;
	st.shared.f32 [%rd6], %f1;
	mov.b32 %r2, 63;
	sub.s32 %r3, %r2, %r1;
	mul.wide.u32 %rd7, %r3, 4;
	add.s64 %rd8, %rd5, %rd7;
	ld.shared.f32 %f2, [%rd8];
	add.s64 %rd9, %rd1, %rd3;
	st.global.f32 [%rd9], %f2;
	ret;
}
`

// Plants are the mistakes that Plant makes.
func Plants() []string { return []string{"write", "race"} }

// Plant runs a kernel with a mistake that a sanitizer must report: "write", one beyond an allocation of 99 numbers, or
// "race", one in shared memory. A GPU alone does not notice them. library is the path of libcuda, the error that of the
// driver. What it allocates is released when the context is.
func Plant(library, mistake string) error {
	_, err := driver.Within(driver.Timeout, "a planted kernel", func() (any, error) {
		return nil, plant(library, mistake)
	})
	return err
}

func plant(library, mistake string) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	drv, err := driver.Open(library)
	if err != nil {
		return err
	}
	context, err := drv.Retain(0)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, drv.SetCurrent(0), drv.Release(0)) }()
	if err := drv.SetCurrent(context); err != nil {
		return err
	}
	stream, err := drv.NewStream()
	if err != nil {
		return err
	}
	const n = 99
	var at [2]driver.Ptr
	for i := range at {
		if at[i], err = drv.Alloc(4 * n); err != nil {
			return err
		}
		if err := drv.Fill(at[i], 0, n, stream); err != nil {
			return err
		}
	}
	name, l := "planted_write_beyond", driver.Launch{Grid: [3]uint32{1, 1, 1}, Threads: 128}
	l.Values[0], l.Values[1] = uint64(at[0]), n
	if mistake == "race" {
		name, l.Threads, l.Values[1] = "planted_missing_barrier", 64, uint64(at[1])
	}
	m, err := drv.LoadModule([]byte(planted))
	if err != nil {
		return fmt.Errorf("load the planted kernels: %w", err)
	}
	f, err := drv.Function(m, name)
	if err != nil {
		return err
	}
	return cmp.Or(drv.Launch(f, &l, stream), drv.Synchronize(stream))
}
