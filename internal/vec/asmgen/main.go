package main

import (
	"log"

	"vsetrain/internal/asm"
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
		{name: "AVX512", reg: "Z", lanes: 16, masks: true},
		{name: "AVX2", reg: "Y", lanes: 8},
	} {
		a := newAssembler(isa)
		kernels(a)
		text, err := a.declarations()
		if err != nil {
			return nil, err
		}
		all["kernels_"+isa.file()+"_amd64.s"] = a.source()
		all["kernels_"+isa.file()+"_amd64.go"] = text
	}
	return all, nil
}
