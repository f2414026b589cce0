package runtest

import "path/filepath"

// FixtureOf returns the folder of a fixture: a checkpoint of a reference repository, its data, and the scores that
// PyTorch computed from them.
func FixtureOf(network string) string { return filepath.Join("../../../testdata/torch", network) }

// The fixture of VSE++, with its checkpoint in two formats of PyTorch, and that of BERT.
var (
	Fixture            = FixtureOf("vsepp")
	FixtureCheckpoints = []string{"checkpoint.pth.tar", "checkpoint_legacy.pth.tar"}
	BertFixture        = FixtureOf("vseinf-bert")
)
