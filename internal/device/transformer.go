package device

import "vsetrain/internal/philox"

// Transformer are the kernels of a BERT encoder (Devlin, Chang, Lee, Toutanova: "BERT: Pre-training of Deep Bidirectional
// Transformers", NAACL 2019). The rows of a batch of captions are concatenated, those of caption 0 first: T = Σ lengths rows are
// read and written, memory beyond them is left alone.
type Transformer interface {
	// Embed reads the sum of word, position and type vectors of every row.
	Embed(EmbedArgs)
	// EmbedGrad reads Out as the gradient of the rows and writes the gradients of the three tables. Deterministic.
	EmbedGrad(EmbedArgs)
	// LayerNorm normalises rows, after adding a branch with dropout.
	LayerNorm(LayerNormArgs)
	LayerNormGrad(LayerNormArgs)
	// SelfAttention is scaled dot-product attention of every caption to itself, all heads.
	SelfAttention(SelfAttentionArgs)
	// SelfAttentionGrad makes the weights anew: nothing of them is stored.
	SelfAttentionGrad(SelfAttentionArgs)
}

// Drops is dropout inside a kernel: place i is kept where word i mod 4 of philox block (Step, i div 4) is at least Rate·2³², rounded
// down, and then divided by 1 - Rate. Rate 0 keeps everything and reads no Step.
type Drops struct {
	Rate float64 // in [0, 1)
	Key  philox.Key
	Step Ints // [2], see DropoutArgs
}

// EmbedArgs: Out[row of word t of caption b] = Word[Words[b, t]] + Position[t] + Type[0]. Words is [B, L] row-major with L columns. EmbedGrad
// writes Word, Position and Type as gradients, each optional; rows that no word reads are zero.
type EmbedArgs struct {
	Words         Ints
	Lengths       Ints // [B], each between 1 and L
	L, V, P, K, D int  // longest caption at most L and P; V words, P positions, K types
	Word          View // [V, D]
	Position      View // [P, D]
	Type          View // [K, D]
	Out           View // [T, D]
}

// LayerNormArgs: with s = X + dropout(Branch), place i of the dropout being element i of Branch,
//
//	Y = Weight·(s - μ)/√(σ² + Eps) + Bias    μ, σ² mean and biased variance of each row
//
// Branch is optional. Sum keeps s and is absent without a branch, where s is X; Mean and InvStd [N] keep μ and 1/√(σ² + Eps).
// LayerNormGrad reads s from Sum, or from X where Sum is absent, Mean, InvStd, Weight and DY and writes DX, the gradient of s
// and X; DBranch, DWeight and DBias, each optional.
type LayerNormArgs struct {
	N, D         int
	Eps          float64
	X, Branch    View // [N, D]
	Drop         Drops
	Sum, Y       View // [N, D]
	Mean, InvStd View // [N]
	Weight, Bias View // [D]

	DY, DX, DBranch View // [N, D]
	DWeight, DBias  View // [D]
}

// SelfAttentionArgs: for each caption of n rows and each of the heads, which own D/Heads consecutive columns,
//
//	P = softmax_j(Query_i · Key_j / √(D/Heads))    Context_i = Σ_j dropout(P)_ij Value_j
//
// over the rows j whose word is not 0; a caption of which every word is 0 attends to all. Adding -10000 to what is masked,
// as BERT does, gives exactly that: e^-10000 is 0. Place of P_ij of head h in the dropout: Heads·Σ n² over the captions before, plus
// (h·n + i)·n + j. SelfAttentionGrad reads Query, Key, Value and DContext and writes DQuery, DKey and DValue. The rows of queries, keys, values and their
// gradients lie LD elements apart (0: D), so that they can be columns of one matrix.
type SelfAttentionArgs struct {
	Heads, D, LD      int
	L                 int  // columns of Words
	Words             Ints // [B, L]; absent: no word is 0
	Lengths           Ints // [B], each at least 1
	Query, Key, Value View // [T, D]
	Context           View // [T, D]
	Drop              Drops

	DContext, DQuery, DKey, DValue View // [T, D]
}
