package main

import (
	"log"
	"strings"

	"vsetrain/internal/compute/asm"
)

func main() {
	log.SetFlags(0)
	if err := asm.Write(files()); err != nil {
		log.Fatal("asmgen: ", err)
	}
}

// files returns every generated file by name.
func files() map[string]string {
	return map[string]string{
		"tile_avx512_amd64.s": tiles512(),
		"tile_avx2_amd64.s":   tilesAVX2(),
		"tile_amx_amd64.s":    tilesAMX(),
		"pack_avx512_amd64.s": packs512(),
		"pack_amx_amd64.s":    packsSplit(),
		"pack_fixed_amd64.s":  packsFixed(),
		"tile_neon_arm64.s":   tilesNEON(),
		"pack_neon_arm64.s":   packsNEON(),
	}
}

// gen is a file of kernels that take one pointer.
type gen struct{ asm.File }

func newGen() *gen {
	g := &gen{}
	g.Raw(strings.TrimSuffix(asm.Header("asmgen;"), "\n"))
	return g
}

func (g *gen) text(name string, frame int) {
	g.Raw("")
	g.Text(name, frame, 8)
}

// Offsets of struct tile (tile.go); a test of package gemm holds them to the Go layout.
const (
	offA     = 0
	offB     = 8
	offC     = 16
	offBias  = 24
	offK     = 32
	offLDC   = 40
	offM     = 48
	offN     = 56
	offAlpha = 64
	offBeta  = 68
	offPF    = 72
	offTmp   = 80
	offLDA   = 88
	offStepA = 96
)
