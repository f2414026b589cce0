// Package sparse holds compressed sparse row matrices, their products with dense blocks of vectors, and the truncated
// singular value decomposition of a sparse matrix.
//
// Why not gonum or james-bowman/sparse: neither has a truncated decomposition of a sparse matrix, and the captions of
// COCO as a dense matrix do not fit into memory.
package sparse
