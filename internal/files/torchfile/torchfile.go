// Package torchfile reads and writes PyTorch checkpoints (.pth, .pth.tar, .pt) without executing anything.
//
// Load reads two formats: the zip archive of PyTorch 1.6 and later (a pickle data.pkl, and one record data/KEY per
// storage) and the legacy format (magic number, protocol, system information and the object as four pickles, then the
// storages). Pickles go through the allow-list of internal/files/pickle. A tensor is a view (offset, shape, strides) of
// a storage, which stays in the file until it is read. Save writes the zip format.
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

// saveState is the remedy for files that hold more than data.
const saveState = "save its state_dict() in Python instead; nothing was executed"

// Load reads a checkpoint. The result is built from nil, bool, int64, float64, string, *Dict, *List, Tuple, *Tensor and
// *Namespace, an instance of any class with its attributes. Tensors read their data from the open file when they need
// it; the file is closed when the last of them is garbage. A call of a name that is not on the allow-list is an error.
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
