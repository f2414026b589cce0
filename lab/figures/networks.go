package main

// networks are the diagrams of the networks, for one image of R regions and one caption of L words. Their equations
// stand in the pages of the networks, docs/NAME.md.
var networks = []diagram{
	{"docs/images/vsepp.svg", "VSE++: one vector for an image, one for a caption", []block{
		{"regions", 0, 0, image, []string{"regions", "[R, D]"}},
		{"flat", 1, 0, image, []string{"one behind the other", "[R·D]"}},
		{"linear", 2, 0, image, []string{"linear layer", "[E]"}},
		{"i", 3, 0, image, []string{"L2 norm: i", "[E]"}},
		{"words", 0, 1, caption, []string{"words", "[L]"}},
		{"embed", 1, 1, caption, []string{"word vectors", "[L, 300]"}},
		{"gru", 2, 1, caption, []string{"GRU, last state", "[E]"}},
		{"c", 3, 1, caption, []string{"L2 norm: c", "[E]"}},
		{"score", 4, 0.5, pair, []string{"score", "i · c"}},
	}, [][2]string{{"regions", "flat"}, {"flat", "linear"}, {"linear", "i"}, {"words", "embed"}, {"embed", "gru"},
		{"gru", "c"}, {"i", "score"}, {"c", "score"}}},

	{"docs/images/vseinf.svg", "VSE-infinity: learned pooling of regions and of words", []block{
		{"regions", 0, 0, image, []string{"regions, some left", "out in training", "[n, D]"}},
		{"mlp", 1, 0, image, []string{"linear layer + MLP", "[n, E]"}},
		{"gpoi", 2, 0, image, []string{"sort each channel,", "Σ_p θ_p value_p", "[E]"}},
		{"i", 3, 0, image, []string{"L2 norm: i", "[E]"}},
		{"theta", 2, 1, pair, []string{"θ: weights of the", "places p, by a small", "BiGRU for each side"}},
		{"words", 0, 2, caption, []string{"words, some left", "out in training", "[L]"}},
		{"text", 1, 2, caption, []string{"BiGRU or BERT", "[L, E]"}},
		{"gpoc", 2, 2, caption, []string{"sort each channel,", "Σ_p θ_p value_p", "[E]"}},
		{"c", 3, 2, caption, []string{"L2 norm: c", "[E]"}},
		{"score", 4, 1, pair, []string{"score", "i · c"}},
	}, [][2]string{{"regions", "mlp"}, {"mlp", "gpoi"}, {"gpoi", "i"}, {"theta", "gpoi"}, {"theta", "gpoc"},
		{"words", "text"}, {"text", "gpoc"}, {"gpoc", "c"}, {"i", "score"}, {"c", "score"}}},

	{"docs/images/vsrn.svg", "VSRN: regions that reason about each other", []block{
		{"regions", 0, 1, image, []string{"regions", "[R, D]"}},
		{"linear", 1, 1, image, []string{"linear layer", "[R, E]"}},
		{"reason", 2, 1, image, []string{"every region looks", "at every other, 4 x", "[R, E]"}},
		{"gru", 3, 1, image, []string{"GRU over the regions,", "L2 norm: i", "[E]"}},
		{"branch", 3, 0, training, []string{"in training only:", "GRUs with attention", "write the caption"}},
		{"loss", 4, 0, training, []string{"loss of captioning"}},
		{"words", 0, 2, caption, []string{"words", "[L]"}},
		{"embed", 1, 2, caption, []string{"word vectors", "[L, 300]"}},
		{"text", 2, 2, caption, []string{"GRU, last state", "[E]"}},
		{"c", 3, 2, caption, []string{"L2 norm: c", "[E]"}},
		{"score", 4, 1.5, pair, []string{"score", "i · c"}},
	}, [][2]string{{"regions", "linear"}, {"linear", "reason"}, {"reason", "gru"}, {"reason", "branch"},
		{"branch", "loss"}, {"words", "embed"}, {"embed", "text"}, {"text", "c"}, {"gru", "score"}, {"c", "score"}}},

	{"docs/images/sgraf.svg", "SAF and SGR: vectors of similarity, weighed (SAF) or reasoned about (SGR)", []block{
		{"regions", 0, 0, image, []string{"regions", "[R, D]"}},
		{"v", 1, 0, image, []string{"linear layer,", "L2 norm: v_k", "[R, E]"}},
		{"vbar", 2, 0, image, []string{"mean with gates:", "the whole image", "[E]"}},
		{"words", 0, 2, caption, []string{"words", "[L]"}},
		{"c", 1, 2, caption, []string{"BiGRU, L2 norm: c_j", "[L, E]"}},
		{"cbar", 2, 2, caption, []string{"mean with gates:", "the whole caption", "[E]"}},
		{"u", 2, 1, pair, []string{"what word j attends", "to: u_j = Σ_k α_jk v_k", "[L, E]"}},
		{"global", 3, 0, pair, []string{"s_0 of the whole", "image and caption", "[1, 256]"}},
		{"s", 3, 1, pair, []string{"s_j of (u_j - c_j)²", "[L, 256]"}},
		{"mix", 4, 0.5, pair, []string{"SAF: Σ_j weight_j s_j", "SGR: s_0 of a graph", "[256]"}},
		{"score", 5, 0.5, pair, []string{"score", "σ(w x + b)"}},
	}, [][2]string{{"regions", "v"}, {"v", "vbar"}, {"words", "c"}, {"c", "cbar"}, {"v", "u"}, {"c", "u"},
		{"vbar", "global"}, {"cbar", "global"}, {"u", "s"}, {"global", "mix"}, {"s", "mix"}, {"mix", "score"}}},

	{"docs/images/gsmn.svg", "GSMN: how well blocks of channels agree, over the graphs of image and caption", []block{
		{"regions", 0, 0, image, []string{"regions, boxes", "[R, D], [R, 4]"}},
		{"v", 1, 0, image, []string{"linear layer,", "L2 norm: v_i", "[R, E]"}},
		{"words", 0, 1, caption, []string{"words, dependencies", "[L], [L, L]"}},
		{"c", 1, 1, caption, []string{"BiGRU, L2 norm: c_j", "[L, E]"}},
		{"m", 2, 0, pair, []string{"16 cosines of v_i and", "words it attends to", "m_i: [R, 16]"}},
		{"n", 2, 1, pair, []string{"16 cosines of c_j and", "regions it attends to", "n_j: [L, 16]"}},
		{"gi", 3, 0, pair, []string{"graph of the boxes,", "8 kernels", "[R, 8·32]"}},
		{"gc", 3, 1, pair, []string{"graph of the", "dependencies", "[L, 8·32]"}},
		{"mi", 4, 0, pair, []string{"two layers, mean", "over the regions"}},
		{"mc", 4, 1, pair, []string{"two layers, mean", "over the words"}},
		{"score", 5, 0.5, pair, []string{"score: sum of", "both"}},
	}, [][2]string{{"regions", "v"}, {"words", "c"}, {"v", "m"}, {"c", "m"}, {"v", "n"}, {"c", "n"}, {"m", "gi"},
		{"n", "gc"}, {"gi", "mi"}, {"gc", "mc"}, {"mi", "score"}, {"mc", "score"}}},

	{"docs/images/scan.svg", "SCAN t2i: every word attends to the regions; i2t exchanges words and regions", []block{
		{"regions", 0, 0, image, []string{"regions", "[R, D]"}},
		{"v", 1, 0, image, []string{"linear layer,", "L2 norm: v_k", "[R, E]"}},
		{"words", 0, 1, caption, []string{"words", "[L]"}},
		{"c", 1, 1, caption, []string{"BiGRU, L2 norm: c_j", "[L, E]"}},
		{"w", 2, 0.5, pair, []string{"a_jk = c_j · v_k,", "softmax over k: w_jk", "[L, R]"}},
		{"r", 3, 0.5, pair, []string{"r_j: cosine of c_j", "and Σ_k w_jk v_k", "[L]"}},
		{"score", 4, 0.5, pair, []string{"score: LogSumExp", "or mean over j"}},
	}, [][2]string{{"regions", "v"}, {"words", "c"}, {"v", "w"}, {"c", "w"}, {"w", "r"}, {"r", "score"}}},

	{"docs/images/chan.svg", "CHAN: every word is given the one region that is most similar to it", []block{
		{"regions", 0, 0, image, []string{"regions", "[R, D]"}},
		{"v", 1, 0, image, []string{"linear layer, self-", "attention, norm: v_k", "[R, E]"}},
		{"words", 0, 1, caption, []string{"words", "[L]"}},
		{"c", 1, 1, caption, []string{"BiGRU or BERT,", "L2 norm: c_j", "[L, E]"}},
		{"s", 2, 0.5, pair, []string{"s_jk = c_j · v_k", "[L, R]"}},
		{"u", 3, 0.5, pair, []string{"u_j: the largest s_jk", "of the regions k", "[L]"}},
		{"score", 4, 0.5, pair, []string{"score: LogSumExp", "over the words j"}},
	}, [][2]string{{"regions", "v"}, {"words", "c"}, {"v", "s"}, {"c", "s"}, {"s", "u"}, {"u", "score"}}},

	{"docs/images/bert.svg", "BERT as the text encoder of VSE-infinity", []block{
		{"pieces", 0, 0, caption, []string{"word pieces, [CLS]", "first, [SEP] last", "[n]"}},
		{"embed", 1, 0, caption, []string{"piece + place + type,", "layer norm", "[n, D]"}},
		{"layers", 2, 0, caption, []string{"12 x self-attention", "and feed-forward", "[n, D]"}},
		{"linear", 3, 0, caption, []string{"linear layer", "[n, E]"}},
		{"gpo", 4, 0, caption, []string{"learned pooling,", "L2 norm: c", "[E]"}},
	}, [][2]string{{"pieces", "embed"}, {"embed", "layers"}, {"layers", "linear"}, {"linear", "gpo"}}},
}
