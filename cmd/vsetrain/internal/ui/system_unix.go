//go:build unix

package ui

import (
	"os"
	"time"
)

var now = time.Now

func showEscapes(*os.File) {}
