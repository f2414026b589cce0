package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"vsetrain/lab/emulator"
	"vsetrain/lab/selftest"
	"vsetrain/lab/try"
)

// A whole selftest passes on a healthy GPU, whose kernels it launches all. It fails where a kernel is taken out of what
// was launched, whichever that is, and names it. It takes ten minutes: make test-selftest.
func TestWholeSelftest(t *testing.T) {
	library := emulator.Library(t)
	var out, errors bytes.Buffer
	c := vsetrain(t.TempDir(), &out, "selftest --json")
	c.Env = append(os.Environ(), "VSETRAIN_CUDA_DRIVER="+library, "VSETRAIN_CUBLAS="+library, "VSETRAIN_NVML=none")
	c.Stderr = &errors
	if err := c.Run(); err != nil {
		t.Errorf("%v: %s", err, &errors)
	}
	var r selftestReport
	try.Do(t, json.Unmarshal(out.Bytes(), &r))
	launched := map[string]bool{}
	for _, x := range r.Results {
		for _, k := range x.Kernels {
			launched[k] = true
		}
		if len(x.Failures) > 0 {
			t.Errorf("%s, %s: %q", x.Variant, x.Family, x.Failures)
		}
	}
	t.Logf("%d of %d kernels were launched by %d tests", len(launched), r.Kernels, len(r.Results))
	if len(launched) != r.Kernels || r.Kernels == 0 || len(r.Barred) > 0 || len(r.Skipped) > 0 {
		t.Errorf("%d of %d kernels were launched, %v barred, %v skipped", len(launched), r.Kernels, r.Barred, r.Skipped)
	}
	all := slices.Sorted(maps.Keys(launched))
	for _, out := range append([]string{""}, all...) {
		again := newSelftestReport(&selftestOptions{}, newApp(new(bytes.Buffer), nil))
		again.opened(selftest.Device{Variant: "fp32", Name: "a GPU", Kernels: all})
		for _, x := range r.Results {
			x.Kernels = slices.DeleteFunc(slices.Clone(x.Kernels), func(k string) bool { return k == out })
			again.each(x)
		}
		if err := again.end(nil); out == "" {
			try.Do(t, err)
		} else {
			try.Fails(t, err, "kernels for this GPU were launched, never: "+out)
		}
	}
}
