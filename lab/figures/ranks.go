package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	ranksFile = "docs/log/ranks.tsv"
	ranksPage = "docs/distributed.md"
)

// ranked is what a step of one H200 is (docs/log/ranks.tsv), times in milliseconds of 128 pairs.
type ranked struct {
	network                       string
	goal                          float64
	parameters, step, fixed, pair float64
	first                         float64
	forward, behind               float64
	embedding, norms              float64
	matrix, columns               float64
}

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
func (c cluster) efficiency(n ranked, batch float64) float64 {
	ranks := c.nodes * c.gpus
	own := batch / ranks
	alone := n.fixed + (n.step-n.fixed-n.pair)*own/128 + n.pair*own*batch/(128*128)
	summed, matrix, rows := n.parameters*1e6, n.matrix*1e6, 0.0
	if matrix > 0 {
		rows = matrix / n.columns
	}
	if batch*(n.columns+2*rows) > 2*matrix {
		matrix = 0 // it is gathered, and its gradient is summed
	}
	summed -= matrix
	waits := n.norms*2*c.gather(0) + c.gather(64) // the last is the norm of the gradients
	if n.embedding > 0 {
		waits += 2 * c.gather(4*batch*n.embedding)
	} else {
		waits += 2*c.gather(4*batch*words*wordSize) + c.gather(4*batch*batch)
	}
	parts := 1 + math.Ceil(4*summed/(25<<20)) // the one that is read first is small
	before, after := parts*c.gather(4*summed/parts), parts*c.gather(c.gradient*summed/parts)
	if matrix > 0 { // its inputs are sent in bf16, as products read them
		before += c.gather(2 * batch * n.columns)
		waits += c.gather(4 * batch * rows)
		after += c.gather(4 * batch * rows)
	}
	first := n.first * 1e6
	waits += max(c.gather(4*first), before-n.forward*alone)        // the first part has nothing to run behind
	waits += max(c.gather(c.gradient*first), after-n.behind*alone) // and the last one neither
	saved := adamBytes * n.parameters * 1e6 / memory * (1 - 1/ranks)
	return min(1, alone/(alone+waits-saved))
}

// enough is the smallest batch of a multiple of 8 pairs a GPU from which the efficiency is 90 %.
func (c cluster) enough(n ranked) string {
	const most = 1024
	for rows := most; rows >= 8; rows -= 8 {
		if batch := float64(rows) * c.nodes * c.gpus; c.efficiency(n, batch) < 0.9 {
			if rows == most {
				return "-"
			}
			return thousands(int(batch + 8*c.nodes*c.gpus))
		}
	}
	return thousands(int(8 * c.nodes * c.gpus))
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// ranksTable reads ranks.tsv and returns a Markdown table of the efficiencies with 8 GPUs and with 4 nodes of 8.
func ranksTable(r io.Reader) (string, error) {
	var b strings.Builder
	b.WriteString("| network | goal | 8 GPUs | bf16 gradients | 90 % from | 4 x 8 GPUs | bf16 gradients " +
		"| 90 % from |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|\n")
	lines := bufio.NewScanner(r)
	for line := 1; lines.Scan(); line++ {
		if text := lines.Text(); strings.HasPrefix(text, "#") || strings.HasPrefix(text, "network\t") {
			continue
		}
		n := ranked{}
		cells := strings.Split(lines.Text(), "\t")
		to := []*float64{&n.goal, &n.parameters, &n.first, &n.step, &n.fixed, &n.pair, &n.forward, &n.behind,
			&n.embedding, &n.norms, &n.matrix, &n.columns}
		if len(cells) != 1+len(to) {
			return "", fmt.Errorf("line %d: %d cells, expected %d", line, len(cells), 1+len(to))
		}
		n.network = cells[0]
		for i, x := range to {
			var err error
			if *x, err = strconv.ParseFloat(cells[1+i], 64); err != nil || *x < 0 {
				return "", fmt.Errorf("line %d: %q, expected a number of at least 0", line, cells[1+i])
			}
		}
		fmt.Fprintf(&b, "| %s | %.0f %% |", n.network, n.goal)
		for _, nodes := range []float64{1, 4} {
			c := cluster{nodes: nodes, gpus: 8, gradient: 4}
			half := c
			half.gradient = 2
			fmt.Fprintf(&b, " %.0f %% | %.0f %% | %s |", 100*c.efficiency(n, 1024), 100*half.efficiency(n, 1024),
				c.enough(n))
		}
		b.WriteString("\n")
	}
	return b.String(), lines.Err()
}
