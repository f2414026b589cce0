package runfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A directory is held from Open to Close, by the process that wrote itself into the lock; what was never locked is held by nobody.
func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	for _, p := range []string{path, t.TempDir()} {
		if o, held, err := Holder(p); held || err != nil {
			t.Errorf("%s, never locked: %v, %v, %v", p, o, held, err)
		}
	}
	d, err := Open(path, Owner{PID: 4711, Host: "here"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // asking changes nothing
		if o, held, err := Holder(path); !held || err != nil || o.PID != 4711 || o.Host != "here" {
			t.Errorf("locked: %v, %v, %v", o, held, err)
		}
	}
	d.Close()
	if o, held, err := Holder(path); held || err != nil {
		t.Errorf("closed: %v, %v, %v", o, held, err)
	}
}

// Who asks all the time keeps nobody from taking the lock.
func TestHolderDisturbsNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	stop, asked := make(chan bool), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				asked <- n
				return
			default:
				Holder(path)
				n++
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	for range 200 {
		d, err := Open(path, Owner{PID: os.Getpid()})
		if err != nil {
			t.Error(err)
			break
		}
		d.Close()
	}
	close(stop)
	if n := <-asked; n == 0 {
		t.Error("nobody asked")
	}
}
