// Command release packs the program for every supported system: an archive and a Python wheel each, with man pages,
// completions, the licences of all modules and a bill of materials (CycloneDX), and the checksums of all. The same
// sources and tools give the same bytes. Run it as `make release`.
package main
