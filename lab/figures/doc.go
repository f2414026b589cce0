// Command figures draws the charts of docs/ and writes the tables that show the same numbers, from the files in
// docs/log, from the registers of the CUDA kernels and from the losses themselves. It also draws the diagrams of the
// networks. The same input gives the same bytes. Run it as `make figures`.
package main
