package verify

import (
	"os"
	"testing"

	"vsetrain/internal/run/runtest"
)

func TestMain(m *testing.M) { os.Exit(runtest.Main(m.Run)) }
