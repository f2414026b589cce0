package main

import (
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	for _, isa := range []isa{
		{name: "AVX512", reg: "Z", lanes: 16, masks: true},
		{name: "AVX2", reg: "Y", lanes: 8},
	} {
		a := newAssembler(isa)
		kernels(a)
		write("kernels_"+isa.file()+"_amd64.s", a.source())
		write("kernels_"+isa.file()+"_amd64.go", a.declarations())
	}
}

func write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}
