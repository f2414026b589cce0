package graph

import "slices"

// Gorgonia adds the gradients of a value that several ops read. Most gradients are products, and a product can add to
// its result. So the sum need not be computed: the later of two terms is added to the memory of the earlier one.

// adding declares that the op can add to a result instead of writing it. It does so if Call.Add is set.
func (o *Op) adding(result int) int {
	o.adds = append(o.adds, result)
	return result
}

// beta is what a product scales result i with before it adds.
func (c *Call) beta(i int) float64 {
	if c.Add[i] {
		return 1
	}
	return 0
}

// writer is the result of an op that writes a buffer first, at an instruction.
type writer struct {
	op     *Op
	result int
	at     int
}

// addTerms gives terms of sums the memory of other terms, to which they are added.
func (p *plan) addTerms() {
	writes, reads := map[*buffer]writer{}, map[*buffer][]int{}
	for i, n := range p.order {
		op, _ := n.Op().(*Op)
		if _, picks := n.Op().(*pick); picks || n.Op() == nil || op != nil && op.Alias {
			continue // no instruction
		}
		for k, b := range p.outs[n] {
			if b != nil {
				writes[b] = writer{op, k, i}
			}
		}
		for _, c := range p.kids[n] {
			for _, b := range p.outs[c] {
				if b != nil {
					reads[b] = append(reads[b], i)
				}
			}
		}
	}
	for i, n := range p.order {
		kids := p.kids[n]
		if n.Op() == nil || isConstant(n) || !isSum(n, kids) {
			continue
		}
		earlier, later := p.only(kids[0]), p.only(kids[1])
		if earlier == nil || later == nil || earlier == later {
			continue
		}
		if writes[later].at < writes[earlier].at {
			earlier, later = later, earlier
		}
		sum, w := p.outs[n][0], writes[later]
		last := len(p.order)
		fits := w.op != nil && slices.Contains(w.op.adds, w.result) && earlier.size == later.size
		kept := func(b *buffer) bool { return b.fixed || b.added }
		free := !kept(earlier) && !kept(later) && !sum.fixed && earlier.end < last && later.end < last
		alone := len(reads[later]) == 1 && !slices.ContainsFunc(reads[earlier], func(at int) bool {
			return at >= w.at && at != i
		})
		if !fits || !free || !alone {
			continue
		}
		p.added[w.op] = append(p.added[w.op], w.result)
		p.skipped[n] = true
		earlier.end, earlier.added = max(earlier.end, sum.end), sum.added
		reads[earlier] = append(slices.DeleteFunc(reads[earlier], func(at int) bool { return at == i }), reads[sum]...)
		for _, outs := range p.outs {
			for k, b := range outs {
				if b == later || b == sum {
					outs[k] = earlier
				}
			}
		}
		p.all = slices.DeleteFunc(p.all, func(b *buffer) bool { return b == later || b == sum })
	}
}

// only is the buffer of a node that has one, nil otherwise.
func (p *plan) only(n *Node) *buffer {
	if outs := p.outs[n]; len(outs) == 1 {
		return outs[0]
	}
	return nil
}
