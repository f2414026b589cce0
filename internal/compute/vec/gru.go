package vec

// One row (one sequence at one time step) of a GRU, H = len(h):
//
//	r = σ(gx_r + gh_r)   z = σ(gx_z + gh_z)   n = tanh(gx_n + r·gh_n)   h' = (1-z)·n + z·h
//
// where gx = W_i x + b_i and gh = W_h h + b_h. gates [4H] holds gx in its first three parts and receives r, z, n, gh_n;
// gh is [3H]; h is the state before the step, y the state after it; prev receives a copy of h.
func gruCell[T Float](sigmoid, tanh func(T) T) func(gates, gh, h, y, prev []T) {
	return func(gates, gh, h, y, prev []T) {
		n := len(h)
		gr, gz, gn, gc := gates[:n], gates[n:2*n], gates[2*n:3*n], gates[3*n:4*n]
		hr, hz, hn := gh[:n], gh[n:2*n], gh[2*n:3*n]
		y, prev = y[:n], prev[:n]
		for i, hi := range h {
			c := hn[i]
			r := sigmoid(gr[i] + hr[i])
			z := sigmoid(gz[i] + hz[i])
			t := tanh(gn[i] + r*c)
			gr[i], gz[i], gn[i], gc[i] = r, z, t, c
			prev[i] = hi
			y[i] = (1-z)*t + z*hi
		}
	}
}

// gruCellGrad is the gradient of gruCell. gates [4H] holds r, z, n, gh_n and receives the gradients of gx_n, gx_r,
// gx_z and gh_n in this order, so that its last three parts are the gradient of gh and its first three the gradient of
// gx, rotated by one part. h is the state before the step; dh holds the gradient of the state after it that came from
// later steps, dy is added to it, and dh receives the part that reaches h directly, z·(dh + dy).
func gruCellGrad[T Float](gates, h, dy, dh []T) {
	n := len(h)
	g0, g1, g2, g3 := gates[:n], gates[n:2*n], gates[2*n:3*n], gates[3*n:4*n]
	dy, dh = dy[:n], dh[:n]
	for i, hi := range h {
		r, z, t, c := g0[i], g1[i], g2[i], g3[i]
		d := dh[i] + dy[i]
		dn := d * (1 - z) * (1 - t*t)
		g0[i] = dn
		g1[i] = dn * c * (r * (1 - r))
		g2[i] = d * (hi - t) * (z * (1 - z))
		g3[i] = dn * r
		dh[i] = d * z
	}
}
