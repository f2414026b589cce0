// Package checkpoints makes other files of trained weights: checkpoints for the reference repositories and of theirs,
// the mean of several, models of ONNX, folders for the Hugging Face Hub, and the sentence vectors of a pretrained BERT.
package checkpoints
