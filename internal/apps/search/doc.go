// Package search retrieves with a trained network: it encodes a split once and then answers queries against it exactly.
//
//	text  → image    s_i = S(image i, query)      over all images of the split
//	image → text     s_c = S(image q, caption c)  over all captions of the split
//
// S is the same score as in evaluation: the dot product of embeddings in float64 (VSE++, VSRN, VSE-infinity), the order
// violation, or the score of a pair if the network looks at both. Several checkpoints score with their mean. Results
// are the k candidates with the highest scores. Ties are in the order of evaluation: the larger index comes first.
//
// A split without captions answers text queries, a split without images answers pictures.
//
// A network that scores pairs looks at every candidate. With Options.Shortlist, an embedder picks the best candidates
// and the pair scorer orders only these.
package search
