// Package torchfile reads and writes PyTorch checkpoints (.pth, .pth.tar, .pt) without executing anything.
//
// Two formats are read: the zip archive of PyTorch 1.6 and later (a pickle data.pkl, one record data/KEY per storage)
// and the legacy format before it (magic number, protocol, system information and the object as four pickles, then the
// storages). Pickles go through the allow-list of internal/files/pickle. A tensor is a view (offset, shape, strides) of
// a storage that stays in the file until it is asked for. Save writes the zip format that torch.load reads with
// weights_only=True.
//
// A reference checkpoint is a dict {epoch, model: [state dict, ...], best_rsum, opt: argparse.Namespace, Eiters}.
//
// Source: torch/serialization.py, torch/_utils.py and caffe2/serialize/inline_container.cc of PyTorch.
//
// Why not nlpodyssey/gopickle/pytorch: it only reads, and it trusts the sizes in the file.
package torchfile

import (
	"fmt"

	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/regular"
)

// The containers of a checkpoint; see internal/files/pickle for the other values.
type (
	Dict      = pickle.Dict // dict and OrderedDict, in order
	List      = pickle.List
	Tuple     = pickle.Tuple
	Namespace = pickle.Object // argparse.Namespace and other classes: the options are its Attrs
)

// saveState is the way to a file that can be read.
const saveState = "save its state_dict() in Python instead; nothing was executed"

// Load reads a checkpoint. The result is built from nil, bool, int64, float64, string, *Dict, *List, Tuple, *Tensor and
// *Namespace, an instance of any class with its attributes. Tensor data are read from the open file when asked for; the
// file is closed once no tensor of it is left. Calls of names that are not on the allow-list are an error that names
// them.
func Load(path string) (any, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("torchfile: %w", err)
	}
	v, err := read(f, size)
	if o, ok := v.(*pickle.Object); ok && err == nil {
		err = fmt.Errorf("a whole %s is pickled in it; %s", o.Class, saveState)
	}
	if err != nil {
		f.Close()
		return nil, regular.Explain(fmt.Errorf("torchfile: %s: %w", path, err), path, regular.Torch)
	}
	return v, nil
}
