// Package semantic computes, stores and reads the semantic vectors of training captions that the LSEH loss compares.
//
// The pipeline is taken from SVDdescriptions.py in the LSEH repository:
//
//	caption -> clean, remove stop words, stem -> TF-IDF row of A [N, w] -> row of B = A V_k [N, k]
//
// where the columns of V_k [w, k] are the right singular vectors of A for the k largest singular values. Row c of B
// belongs to line c of the caption file. Only B B^T matters to the loss, so rotations of B are irrelevant.
//
// The library kljensen/snowball implements Porter2, but the vectors of the papers come from NLTK's variant of Porter's
// first algorithm (porter.go).
package semantic
