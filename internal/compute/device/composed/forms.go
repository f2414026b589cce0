package composed

import "vsetrain/internal/compute/device"

// SegmentProducts composes that kernel: a product for each segment.
func (k forms) SegmentProducts(a device.SegmentProducts) {
	first := 0
	for _, count := range a.Counts.Host {
		n := int(count)
		x, y := a.A.Slice(first*a.D, (first+n)*a.D), a.B.Slice(first*a.D, (first+n)*a.D)
		g := a.G.Slice(first*a.Longest, (first+n-1)*a.Longest+n)
		switch a.Form {
		case device.SegmentGram:
			device.Do(k, device.Gemm{TransB: true, M: n, N: n, K: a.D, Alpha: 1, A: x, B: y, C: g, LDC: a.Longest,
				Exact: true})
		case device.SegmentApply, device.SegmentApplyT:
			device.Do(k, device.Gemm{TransA: a.Form == device.SegmentApplyT, M: n, N: a.D, K: n, Alpha: 1, A: g,
				LDA: a.Longest, B: x, C: y, Exact: true})
		}
		first += n
	}
}

// FiltrateSimilarities is one kernel after the other.
func (k forms) FiltrateSimilarities(a device.FiltrateSimilarities) bool {
	device.Do(k, a.Words)
	device.Do(k, a.Captions)
	device.Do(k, a.Filtrate)
	return true
}

// CrossScores is composed of the operations of a graph, in tiles of images (graph.Graph.CrossScores).
func (k forms) CrossScores(device.CrossScores) bool { return false }

// AllGather composes that kernel where there is one rank, and reports whether there is.
func (k forms) AllGather(a device.AllGather) bool {
	if a.Grad {
		return k.alone(a.Shard, a.DX, a.DY)
	}
	return k.alone(a.Shard, a.Y, a.X)
}

// ReduceScatter is AllGather of that kernel.
func (k forms) ReduceScatter(a device.ReduceScatter) bool { return k.alone(a.Shard, a.Y, a.X) }

// alone copies the values of the only rank, and reports whether there is one.
func (k forms) alone(d device.Shard, dst, src device.View) bool {
	if d.Ranks > 1 {
		return false
	}
	device.Do(k, device.Copy{Dst: dst, Src: src})
	return true
}

// AllReduce leaves X of the only rank as it is.
func (k forms) AllReduce(device.AllReduce) {}

// Broadcast leaves X of the only rank as it is.
func (k forms) Broadcast(device.Broadcast) {}

// Wait has nothing to wait for.
func (k forms) Wait(device.Wait) {}
