// Package data reads image-caption data sets and turns them into mini-batches.
//
// A data set is a folder of splits (train, dev, test, testall) in the layout that the reference repositories share:
//
//	{split}_caps.txt   one caption per line, UTF-8; caption c is line c+1
//	{split}_ims.npy    float32 or float16 region features [rows, R, D] or [rows, D]
//	{split}_ids.txt    one image id per line, for each row, image or caption
//
// A split may have only images, a gallery to search in, or only captions (OpenOptions.Partial).
//
// Image rows are stored in one of two ways: unique (one row per image, k captions each) or repeated (one row per
// caption, every k rows the same image). The rule of the references, image row = caption index / im_div, where im_div
// is 1 if there are as many rows as captions and otherwise 5, is the special case k = 5. Open derives k from the files
// and checks it.
//
// Features are memory-mapped; the workers of a Loader copy the rows of a batch. Every order and draw is a function of
// (seed, epoch, iteration), so a run can resume anywhere.
package data
