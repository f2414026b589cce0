package analysis

import (
	"os"
	"testing"

	"vsetrain/lab/runtest"
)

func TestMain(m *testing.M) { os.Exit(runtest.Main(m.Run)) }
