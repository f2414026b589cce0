package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// statement says what a release was built from, as an in-toto statement with SLSA provenance. It holds no times and no
// machine, so the same commit gives the same bytes, and whoever builds it again can compare.
//
// Source: in-toto.io/Statement/v1, slsa.dev/provenance/v1.
func (o *options) statement(version string, sums map[string][]byte) ([]byte, error) {
	type digest map[string]string
	type resource struct {
		Name   string `json:"name"`
		Digest digest `json:"digest"`
	}
	subjects := []resource{}
	for name, sum := range sums {
		subjects = append(subjects, resource{name, digest{"sha256": fmt.Sprintf("%x", sum)}})
	}
	slices.SortFunc(subjects, func(a, b resource) int { return strings.Compare(a.Name, b.Name) })
	goVersion, err := exec.Command(o.Go, "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOVERSION: %w", err)
	}
	b, err := json.MarshalIndent(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType": "vsetrain:make-release:1",
				"externalParameters": map[string]any{"version": version, "targets": o.Targets, "ldflags": o.LDFlags,
					"SOURCE_DATE_EPOCH": o.Epoch},
				"resolvedDependencies": []resource{{"vsetrain", digest{"gitCommit": o.Commit}},
					{strings.TrimSpace(string(goVersion)), digest{}}},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": "vsetrain:make-release"}},
		},
	}, "", "  ")
	return append(b, '\n'), err
}

// namespace is what signatures of a release are for, so that one that was made for something else does not fit.
const namespace = "vsetrain-release"

// sign signs a file with the SSH key of the releaser, into the file's name with .sig.
func sign(key, path string) error {
	if err := os.Remove(path + ".sig"); err != nil && !os.IsNotExist(err) { // ssh-keygen would ask
		return err
	}
	out, err := exec.Command("ssh-keygen", "-Y", "sign", "-f", key, "-n", namespace, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("sign %s with %s: %w\n%s", path, key, err, out)
	}
	return nil
}
