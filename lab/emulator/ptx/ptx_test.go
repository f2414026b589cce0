package ptx

import (
	"io"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/lab/try"
)

// Every kernel is translated.
func TestTranslatesAllKernels(t *testing.T) {
	modules, err := kernels.Modules()
	if err != nil || len(modules) < 30 {
		t.Fatalf("%d modules: %v", len(modules), err)
	}
	for _, m := range modules {
		var b strings.Builder
		if err := Translate(&b, m.Name+".ptx", string(m.PTX)); err != nil {
			t.Error(err)
		}
		if n := strings.Count(b.String(), "const Known known_"); n != len(m.Entries) {
			t.Errorf("%s: %d kernels, expected %d", m.Name, n, len(m.Entries))
		}
	}
}

// kernelOf is PTX with one kernel whose code is the lines.
func kernelOf(code ...string) string {
	return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid " +
		"256, 1, 1\n{\n" +
		"\t.reg .b32 \t%r<4>;\n\t.reg .f32 \t%f<4>;\n\t.reg .pred \t%p<2>;\n\t.reg .b64 \t%rd<4>;\n\t" +
		strings.Join(code, "\n\t") + "\n\tret;\n}\n"
}

func TestStatements(t *testing.T) {
	for code, want := range map[string]string{
		"fma.rn.f32 \t%f1, %f2, %f3, 0f3F800000;": "set(f1, op_fma_rn<float>(as<float>(f2), as<float>(f3), " +
			"as<float>(bits<float>(0x3F800000u))));",
		"@!%p1 bra \t$L__BB0_2;": "if (!p1) { goto L__BB0_2; }",
		"ld.global.v2.u32 \t{%r1, %r2}, [%rd1+8];": "{ uint32_t* at = k_global<uint32_t, 2, " +
			"false>(as<uint64_t>(rd1) + (int64_t)8, 13); set(r1, at[0]); set(r2, at[1]); }",
		"st.shared.f32 \t[%rd2], %f1;": "{ float* at = k_shared<float, 1, true>(as<uint64_t>(rd2) + " +
			"(int64_t)0, 13); at[0] = as<float>(f1); }",
		"mul.wide.s32 \t%rd1, %r1, -4;": "set(rd1, op_mul_wide<int32_t>(as<int32_t>(r1), " +
			"as<int32_t>((uint64_t)0xfffffffffffffffcull)));",
		"mul.hi.u16 \t%rs1, %rs2, 3277;": "set(rs1, op_mul_hi<uint16_t>(as<uint16_t>(rs2), " +
			"as<uint16_t>((uint64_t)0xccdull)));",
		"cvt.rzi.s32.f32 \t%r1, %f1;": "set(r1, convert<int32_t>(as<float>(f1)));",
		"shfl.sync.bfly.b32\t%r1, %r2, 16, 31, -1;": "set(r1, (uint32_t)emu::shuffle(" +
			"as<uint32_t>((uint64_t)0xffffffffffffffffull), as<uint32_t>(r2), " +
			"emu::kXor, as<uint32_t>((uint64_t)0x10ull)));",
		"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r1, %r0}, " +
			"{%f3, %f2, %f1, %f0};": "{ float d[4] = {as<float>(f3), as<float>(f2), as<float>(f1), as<float>(f0)}; " +
			"uint32_t a[4] = {r0, r1, r2, r3}, b[2] = {r1, r0}; emu::mma(d, a, b); set(f0, d[0]); set(f1, d[1]); " +
			"set(f2, d[2]); set(f3, d[3]); }",
		"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f3, %f2, %f1, %f0}, {%r3, %r2, %r1, %r0}, {%r0, %r1}, " +
			"{%f0, %f1, %f2, %f3};": "{ float d[4] = {as<float>(f0), as<float>(f1), as<float>(f2), as<float>(f3)}; " +
			"uint32_t a[4] = {r3, r2, r1, r0}, b[2] = {r0, r1}; emu::mma_tf32(d, a, b); set(f3, d[0]); " +
			"set(f2, d[1]); set(f1, d[2]); set(f0, d[3]); }",
		"cvt.rna.tf32.f32 %r1, %f2;":                   "set(r1, emu::tf32(as<float>(f2)));",
		"cvt.rn.bf16x2.f32 %r1, %f2, %f1;":             "set(r1, emu::bf16x2(as<float>(f2), as<float>(f1)));",
		"@%p1 prefetch.L2 [%rd1];":                     "if (p1) { ; }",
		"{ .reg .b32 tmp; mov.b64 {tmp, %r2}, %rd1; }": "set(r2, (uint32_t)(as<uint64_t>(rd1) >> 32));",
		"ld.param.u64 \t%rd1, [k_param_0];":            "set(rd1, parameter<uint64_t>(P, 0));",
	} {
		var b strings.Builder
		if err := Translate(&b, "k.ptx", kernelOf(code)); err != nil {
			t.Error(err)
		} else if !strings.Contains(b.String(), "\n  "+want+"\n") {
			t.Errorf("%s is\n%s\nwant %s", code, b.String(), want)
		}
	}
}

// What the translation does not know is an error that names the line.
func TestUnknownPTX(t *testing.T) {
	for _, code := range []string{
		"add.ftz.f32 \t%f1, %f2, %f3;", "div.approx.f32 \t%f1, %f2, %f3;", "sqrt.approx.f32 \t%f1, %f2;",
		"ex2.approx.f32 \t%f1, %f2;",
		"cvt.s32.f32 \t%r1, %f1;", "cvt.rn.f16.f32 \t%r1, %f1;", "bar.sync \t1;", "shfl.sync.down.b32\t%r1, %r2, 16, " +
			"31, -1;",
		"ld.local.f32 \t%f1, [%rd1];", "atom.global.add.f32 \t%f1, [%rd1], %f2;", "add.f32 \t%f1, %f2;",
		"ld.param.u64 \t%rd1, [k_param_7];",
		"mov.u32 \t%r1, %clock;", ".local .align 4 .b8 x[4];", "call.uni f;", "ld.global.v2.u32 \t{%r1}, [%rd1];",
		"add.f32 %f1, %f2, %f3",
		"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1}, {%r0, %r1, %r2, %r3}, {%r1, %r0}, {%f0, %f1};",
		"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r1}, " +
			"{%f0, %f1, %f2, %f3};", "cvt.rn.tf32.f32 %r1, %f2;",
	} {
		try.Fails(t, Translate(io.Discard, "k.ptx", kernelOf(code)), "k.ptx:13:")
	}
	for _, text := range []string{"", ".version 7.0\n", strings.TrimSuffix(kernelOf(), "}\n")} {
		if err := Translate(io.Discard, "k.ptx", text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
