package main

import (
	"fmt"
	"math"
)

// rankColumns are those of docs/log/ranks.tsv: what a step of one H200 is, times in milliseconds of 128 pairs.
var rankColumns = []string{"network", ">goal", ">parameters", ">first", ">step", ">fixed", ">pair", ">forward",
	">behind", ">embedding", ">norms", ">matrix", ">columns"}

// cluster is machines of GPUs that train together.
type cluster struct {
	nodes, gpus float64 // gpus of a node
	gradient    float64 // bytes of a gradient that is sent
}

// What links carry in a millisecond, and what a collective takes beside that. A ring of NCCL reaches 370 GB/s of the
// 450 that NVLink of an H200 has each way, and 45 of the 50 of a card of InfiniBand NDR (400 Gb/s).
const (
	nvlink, card      = 370e6, 45e6
	latency, distance = 0.020, 0.030
	words, wordSize   = 14.5, 1024 // words of a caption, values of a word
	memory            = 3.84e9     // bytes in a millisecond, 0.8 of 4.8 TB/s
	adamBytes         = 24         // of a parameter and its moments, read and written
)

// gather is the time in which every GPU has had so many bytes of all or, of sums, its piece: each sends all but a piece
// along a ring in its node, and along one between the nodes.
func (c cluster) gather(bytes float64) float64 {
	t := latency + bytes*(c.gpus-1)/c.gpus/nvlink
	if c.nodes > 1 {
		t += distance + bytes*(c.nodes-1)/c.nodes/(card*c.gpus)
	}
	return t
}

// efficiency is the time of a step of one GPU over that of all with as many pairs each, for a batch of all together.
// That every GPU updates only a piece of the parameters is a gain; at most it makes up for what a step waits.
func (c cluster) efficiency(r row, batch float64) float64 {
	n, ranks := r.number, c.nodes*c.gpus
	own := batch / ranks
	alone := n["fixed"] + (n["step"]-n["fixed"]-n["pair"])*own/128 + n["pair"]*own*batch/(128*128)
	summed, matrix, rows := n["parameters"]*1e6, n["matrix"]*1e6, 0.0
	if matrix > 0 {
		rows = matrix / n["columns"]
	}
	if batch*(n["columns"]+2*rows) > 2*matrix {
		matrix = 0 // it is gathered, and its gradient is summed
	}
	summed -= matrix
	waits := n["norms"]*2*c.gather(0) + c.gather(64) // the last is the norm of the gradients
	if n["embedding"] > 0 {
		waits += 2 * c.gather(4*batch*n["embedding"])
	} else {
		waits += 2*c.gather(4*batch*words*wordSize) + c.gather(4*batch*batch)
	}
	parts := 1 + math.Ceil(4*summed/(25<<20)) // the one that is read first is small
	before, after := parts*c.gather(4*summed/parts), parts*c.gather(c.gradient*summed/parts)
	if matrix > 0 { // its inputs are sent in bf16, as products read them
		before += c.gather(2 * batch * n["columns"])
		waits += c.gather(4 * batch * rows)
		after += c.gather(4 * batch * rows)
	}
	first := n["first"] * 1e6
	waits += max(c.gather(4*first), before-n["forward"]*alone)        // the first part has nothing to run behind
	waits += max(c.gather(c.gradient*first), after-n["behind"]*alone) // and the last one neither
	saved := adamBytes * n["parameters"] * 1e6 / memory * (1 - 1/ranks)
	return min(1, alone/(alone+waits-saved))
}

// enough is the smallest batch of a multiple of 8 pairs a GPU from which the efficiency is 90 %.
func (c cluster) enough(n row) string {
	const most = 1024
	for rows := most; rows >= 8; rows -= 8 {
		if batch := float64(rows) * c.nodes * c.gpus; c.efficiency(n, batch) < 0.9 {
			if rows == most {
				return "-"
			}
			return whole(batch + 8*c.nodes*c.gpus)
		}
	}
	return whole(8 * c.nodes * c.gpus)
}

// ranks writes the table of the efficiencies with 8 GPUs and with 4 nodes of 8.
func (b *book) ranks() error {
	rows, err := b.rows("docs/log/ranks.tsv", rankColumns...)
	if err != nil {
		return err
	}
	t := newTable("network", ">goal", ">8 GPUs", ">bf16 gradients", ">90 % from", ">4 x 8 GPUs", ">bf16 gradients",
		">90 % from")
	for _, n := range rows {
		cells := []string{n.text["network"], percent(n.number["goal"])}
		for _, nodes := range []float64{1, 4} {
			c, half := cluster{nodes: nodes, gpus: 8, gradient: 4}, cluster{nodes: nodes, gpus: 8, gradient: 2}
			cells = append(cells, percent(100*c.efficiency(n, 1024)), percent(100*half.efficiency(n, 1024)),
				c.enough(n))
		}
		t.row(cells...)
	}
	return b.put("docs/distributed.md", "ranks", t.String())
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v) }
