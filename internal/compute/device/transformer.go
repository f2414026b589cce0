package device

// The kernels of a BERT encoder (Devlin, Chang, Lee, Toutanova: "BERT: Pre-training of Deep Bidirectional
// Transformers", NAACL 2019). The rows of a batch of captions are concatenated, the rows of caption 0 first. The
// kernels read and write T = Σ lengths rows; memory beyond them does not change.

// Embed adds the word, position and type vectors of every row: Out[row of word t of caption b] = Word[Words[b, t]] +
// Position[t] + Type[0], for Words [B, L]. The gradient reads Out as the gradient of the rows and writes Word, Position
// and Type as the gradients of the tables, each optional; rows that no word reads are zero. It is deterministic.
type Embed struct {
	Gradient
	Words         Ints
	Lengths       Ints // [B], each between 1 and L
	L, V, P, K, D int  // longest caption at most L and P; V words, P positions, K types
	Word          View // [V, D]
	Position      View // [P, D]
	Type          View // [K, D]
	Out           View // [T, D]
}

func (a *Embed) Views(c *Checker) {
	c.positive("L V P K D", a.L, a.V, a.P, a.K, a.D)
	rows := c.lengths("Lengths", &a.Lengths, 1, min(a.L, a.P))
	c.ints("Words", &a.Words.View, len(a.Lengths.Host)*a.L)
	c.floats("Out", &a.Out, rows*a.D)
	if a.Grad {
		c.optional("Word", &a.Word, a.V*a.D)
		c.optional("Position", &a.Position, a.P*a.D)
		c.optional("Type", &a.Type, a.K*a.D)
	} else {
		c.part("Word", &a.Word, Float, a.V*a.D, Required, rows*a.D)
		c.floats("Position", &a.Position, a.P*a.D)
		c.floats("Type", &a.Type, a.K*a.D)
	}
}

// LayerNorm normalises rows, after adding a branch with dropout. With s = X + dropout(Branch),
//
//	Y = Weight·(s - μ)/√(σ² + Eps) + Bias    μ, σ² mean and biased variance of each row
//
// Branch is optional. Sum keeps s; without a branch it is absent, and s is X. Mean and InvStd [N] keep μ and 1/√(σ² +
// Eps). The gradient reads s from Sum, or from X if Sum is absent, and Mean, InvStd, Weight and DY. It writes DX, the
// gradient of s and X, and DBranch, DWeight and DBias, each optional. DBranchBias (optional, with DBranch) gets the
// sums of the columns of DBranch: the gradient of a bias at the end of the branch. With Operand, only products read
// DBranch (Gemm).
type LayerNorm struct {
	Gradient
	N, D         int
	Eps          float64
	X, Branch    View // [N, D]
	Drop         DropoutParams
	Sum, Y       View // [N, D]
	Mean, InvStd View // [N]
	Weight, Bias View // [D]

	DY, DX, DBranch View // [N, D]
	DWeight, DBias  View // [D]
	DBranchBias     View // [D]
	Operand         bool
}

func (a *LayerNorm) Views(c *Checker) {
	c.positive("D", a.D)
	a.Drop.views(c, "Drop.Step", "Drop.Rows", a.N)
	n := a.N * a.D
	c.optional("Sum", &a.Sum, n)
	c.floats("Mean", &a.Mean, a.N)
	c.floats("InvStd", &a.InvStd, a.N)
	c.floats("Weight", &a.Weight, a.D)
	if a.Grad {
		if !a.Sum.Present() {
			c.floats("X", &a.X, n)
		}
		c.floats("DY", &a.DY, n)
		c.floats("DX", &a.DX, n)
		c.optional("DBranch", &a.DBranch, n)
		c.optional("DWeight", &a.DWeight, a.D)
		c.optional("DBias", &a.DBias, a.D)
		c.optional("DBranchBias", &a.DBranchBias, a.D)
		if a.DBranchBias.Present() && !a.DBranch.Present() {
			c.refuse("DBranchBias needs a DBranch")
		}
		return
	}
	c.floats("X", &a.X, n)
	c.optional("Branch", &a.Branch, n)
	if a.Branch.Present() && !a.Sum.Present() {
		c.refuse("a branch needs a Sum to keep")
	}
	c.floats("Y", &a.Y, n)
	c.floats("Bias", &a.Bias, a.D)
}

// SelfAttention is scaled dot-product attention of every caption to itself, with all heads. For each caption of n rows
// and each head, which has D/Heads consecutive columns,
//
//	P = softmax_j(Query_i · Key_j / √(D/Heads))    Context_i = Σ_j dropout(P)_ij Value_j
//
// over the rows j whose word is not 0; a caption whose words are all 0 attends to all of them. Adding -10000 to masked
// scores, as BERT does, gives the same, because e^-10000 is 0. For dropout, P_ij of head h is column (h·n + i)·n + j of
// the first row of its caption.
//
// The gradient reads Query, Key, Value and DContext, recomputes the weights, and writes DQuery, DKey and DValue. The
// rows of queries, keys, values and their gradients are LD elements apart (0: D), so that they can be columns of one
// matrix. DBias (optional) gets the sums of the columns of the three gradients. With Operand, only products read
// Context, or the three gradients (Gemm).
type SelfAttention struct {
	Gradient
	Heads, D, LD      int
	L                 int  // columns of Words
	Words             Ints // [B, L]; absent: no word is 0
	Lengths           Ints // [B], each at least 1
	Query, Key, Value View // [T, D]
	Context           View // [T, D]
	Drop              DropoutParams

	DContext, DQuery, DKey, DValue View // [T, D]
	DBias                          View // [3·D]
	Operand                        bool
}

// Views also replaces an LD of 0 by D.
func (a *SelfAttention) Views(c *Checker) {
	c.positive("Heads D", a.Heads, a.D)
	if a.D%a.Heads != 0 {
		c.refuse("%d columns for %d heads, expected a multiple", a.D, a.Heads)
	}
	if a.LD == 0 {
		a.LD = a.D
	}
	if a.LD < a.D {
		c.refuse("rows of %d columns %d apart", a.D, a.LD)
	}
	most := anyLength
	if a.Words.Present() {
		most = a.L
		c.ints("Words", &a.Words.View, len(a.Lengths.Host)*a.L)
	}
	rows := c.lengths("Lengths", &a.Lengths, 1, most)
	a.Drop.views(c, "Drop.Step", "Drop.Rows", rows)
	span := 0 // from the first row to the end of the last one
	if rows > 0 {
		span = (rows-1)*a.LD + a.D
	}
	c.floats("Query", &a.Query, span)
	c.floats("Key", &a.Key, span)
	c.floats("Value", &a.Value, span)
	if a.Grad {
		c.floats("DContext", &a.DContext, rows*a.D)
		c.floats("DQuery", &a.DQuery, span)
		c.floats("DKey", &a.DKey, span)
		c.floats("DValue", &a.DValue, span)
		c.optional("DBias", &a.DBias, 3*a.D)
	} else {
		c.floats("Context", &a.Context, rows*a.D)
	}
}
