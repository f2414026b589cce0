package try

import (
	"errors"
	"slices"
	"testing"
)

// record is a test that goes on where others end.
type record struct {
	testing.TB
	said []string
}

func (r *record) Helper()               {}
func (r *record) Fatal(...any)          { r.said = append(r.said, "fatal") }
func (r *record) Fatalf(string, ...any) { panic(r) } // nothing behind it may run
func (r *record) Errorf(string, ...any) { r.said = append(r.said, "error") }

func TestTry(t *testing.T) {
	bad := errors.New("line 3: no number")
	r := &record{TB: t}
	Do(r, nil)
	Fails(r, bad, "line 3", "number")
	if n := Get(7, nil)(r); n != 7 || r.said != nil {
		t.Errorf("got %d, said %q where all is well", n, r.said)
	}
	Do(r, bad)
	Get(7, bad)(r)
	Refuses(7, bad)(r, "line 4", "number", "nothing")
	if want := []string{"fatal", "fatal", "error", "error"}; !slices.Equal(r.said, want) {
		t.Errorf("said %q, want %q", r.said, want)
	}
	defer func() {
		if recover() != r {
			t.Error("no error is taken for one")
		}
	}()
	Fails(r, nil)
}
