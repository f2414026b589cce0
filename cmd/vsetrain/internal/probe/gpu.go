package probe

import (
	"os"
	"path/filepath"
	"strings"
)

// GPUs returns the model names that the NVIDIA kernel driver lists.
func GPUs(root string) []string {
	files, err := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil
	}
	names := []string{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && key == "Model" {
				names = append(names, strings.TrimSpace(value))
			}
		}
	}
	return names
}
