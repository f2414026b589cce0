package device

// AdditiveAttention lets one query per sequence attend to the sequence's regions (Bahdanau, Cho, Bengio: "Neural
// machine translation by jointly learning to align and translate", ICLR 2015), for the first B queries with R regions
// each:
//
//	e_br = Vector · tanh(Keys_br + Query_b)    Weights_b = softmax_r e_br    Context_b = Σ_r Weights_br Values_br
//
// The gradient reads the inputs, Weights and DContext. It writes DQuery and adds to DKeys, DValues and DVector, so that
// the steps of a decoder accumulate. DVector has one row per sequence; the sum of the rows is the gradient of Vector.
type AdditiveAttention struct {
	Gradient
	B, R, H, E       int
	Keys             View // [B, R, H]
	Query            View // [B, H]
	Vector           View // [H]
	Values           View // [B, R, E]
	Weights          View // [B, R]
	Context          View // [B, E]
	DContext, DQuery View // [B, E], [B, H]
	DKeys, DValues   View // [B, R, H], [B, R, E]; added to
	DVector          View // [B, H]; added to
}

func (a *AdditiveAttention) Views(c *Checker) {
	c.positive("B R H E", a.B, a.R, a.H, a.E)
	c.floats("Keys", &a.Keys, a.B*a.R*a.H)
	c.floats("Query", &a.Query, a.B*a.H)
	c.floats("Vector", &a.Vector, a.H)
	c.floats("Values", &a.Values, a.B*a.R*a.E)
	c.floats("Weights", &a.Weights, a.B*a.R)
	if a.Grad {
		c.floats("DContext", &a.DContext, a.B*a.E)
		c.floats("DQuery", &a.DQuery, a.B*a.H)
		c.floats("DKeys", &a.DKeys, a.B*a.R*a.H)
		c.floats("DValues", &a.DValues, a.B*a.R*a.E)
		c.floats("DVector", &a.DVector, a.B*a.H)
	} else {
		c.floats("Context", &a.Context, a.B*a.E)
	}
}
