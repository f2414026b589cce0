package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// The statement names every file with its sum, the commit and the compiler, in the same bytes whatever the order.
func TestStatement(t *testing.T) {
	o := options{Go: "go", LDFlags: "-s", Epoch: 7, Targets: []string{"linux/amd64"}, Commit: "0123456789abcdef"}
	sums := map[string][]byte{"b.whl": {0xab}, "a.tar.gz": {0x01, 0x02}}
	b := try.Get(o.statement("1.2.3", sums))(t)
	var s struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest struct{ SHA256 string }
		}
		PredicateType string
		Predicate     struct {
			BuildDefinition struct {
				ExternalParameters   struct{ Version string }
				ResolvedDependencies []struct {
					Name   string
					Digest struct{ GitCommit string }
				}
			}
		}
	}
	try.Do(t, json.Unmarshal(b, &s))
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" ||
		len(s.Subject) != 2 || s.Subject[0].Name != "a.tar.gz" || s.Subject[0].Digest.SHA256 != "0102" ||
		s.Subject[1].Name != "b.whl" || s.Subject[1].Digest.SHA256 != "ab" ||
		s.Predicate.BuildDefinition.ExternalParameters.Version != "1.2.3" {
		t.Errorf("%s", b)
	}
	if from := s.Predicate.BuildDefinition.ResolvedDependencies; len(from) != 2 ||
		from[0].Digest.GitCommit != o.Commit || !strings.HasPrefix(from[1].Name, "go1.") {
		t.Errorf("built from %+v", from)
	}
	if again, err := o.statement("1.2.3", sums); err != nil || !bytes.Equal(b, again) {
		t.Errorf("made twice it differs, %v", err)
	}
}

// ssh-keygen accepts the signature with the releaser's key, and refuses another file, key or purpose.
func TestSign(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen here")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		try.Do(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	for _, key := range []string{"key", "other"} {
		c := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		public := try.Get(os.ReadFile(at(key + ".pub")))(t)
		write("signers-"+key, "releaser "+string(public))
	}
	write("SHA256SUMS", "00  a\n")
	for range 2 { // again: the earlier signature goes
		try.Do(t, sign(at("key"), at("SHA256SUMS")))
	}
	verify := func(signers, purpose, text string) error {
		c := exec.Command("ssh-keygen", "-Y", "verify", "-f", at(signers), "-I", "releaser", "-n", purpose, "-s",
			at("SHA256SUMS.sig"))
		c.Stdin = strings.NewReader(text)
		return c.Run()
	}
	if err := verify("signers-key", namespace, "00  a\n"); err != nil {
		t.Error(err)
	}
	if verify("signers-key", namespace, "01  a\n") == nil || verify("signers-other", namespace, "00  a\n") == nil ||
		verify("signers-key", "git", "00  a\n") == nil {
		t.Error("another file, key or purpose is accepted")
	}
	try.Fails(t, sign(at("none"), at("SHA256SUMS")), at("none"))
}
