package main

import (
	"log"

	"vsetrain/internal/compute/asm"
)

func main() {
	log.SetFlags(0)
	all, err := files()
	if err == nil {
		err = asm.Write(all)
	}
	if err != nil {
		log.Fatal("asmgen: ", err)
	}
}

// files returns every generated file by name.
func files() (map[string]string, error) {
	all := map[string]string{}
	for _, isa := range []isa{
		{name: "AVX512", arch: "amd64", reg: "Z", lanes: 16, masks: true},
		{name: "AVX2", arch: "amd64", reg: "Y", lanes: 8},
		{name: "NEON", arch: "arm64", lanes: 4, neon: true},
	} {
		a := newAssembler(isa)
		kernels(a)
		text, err := a.declarations()
		if err != nil {
			return nil, err
		}
		all["kernels_"+isa.file()+"_"+isa.arch+".s"] = a.source()
		all["kernels_"+isa.file()+"_"+isa.arch+".go"] = text
	}
	return all, nil
}
