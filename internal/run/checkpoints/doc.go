// Package checkpoints converts trained weights: checkpoints from and for the reference repositories, the mean of
// several checkpoints, ONNX models, folders for the Hugging Face Hub, and the sentence vectors of a pretrained BERT.
package checkpoints
