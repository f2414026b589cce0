//go:build (amd64 || arm64) && !(vsecu && cgo) && !nodl

package driver

// Binding names how libcuda is called: by dlopen, or through gorgonia.org/cu (build tag vsecu).
const Binding = "dlopen"

// Open loads libcuda from a path and initialises it.
func Open(path string) (Driver, error) {
	d, err := load(path)
	if err != nil {
		return nil, err
	}
	return d, nil
}
