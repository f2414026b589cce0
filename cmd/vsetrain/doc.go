// Command vsetrain trains, evaluates and explores visual-semantic embedding networks for image-text retrieval.
package main
