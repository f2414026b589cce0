// Package checkpoints makes other files of trained weights: checkpoints for the reference repositories and of theirs,
// the mean of several, models of ONNX, and the sentence vectors of a pretrained BERT.
package checkpoints
