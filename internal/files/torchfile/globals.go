package torchfile

import (
	"fmt"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/pickle"
)

// globals is the allow-list of checkpoints: plain data, NumPy numbers, argparse.Namespace, and PyTorch's tensors.
func globals() pickle.Globals {
	t := pickle.Globals{
		"argparse.Namespace":                         pickle.ObjectClass("argparse.Namespace"),
		"torch._utils._rebuild_tensor":               {Call: rebuildTensor},
		"torch._utils._rebuild_tensor_v2":            {Call: rebuildTensor},
		"torch._utils._rebuild_tensor_v3":            {Call: rebuildTensor},
		"torch._utils._rebuild_parameter":            {Call: rebuildParameter},
		"torch._utils._rebuild_parameter_with_state": {Call: rebuildParameter},
		"torch.Size":   {Call: rebuildSize},
		"torch.device": {Call: rebuildDevice},
	}
	for name := range storageClasses {
		t[name] = pickle.Class{}
	}
	for name := range torchTypes {
		t[name] = pickle.Class{}
	}
	return pickle.Merge(pickle.Standard(), pickle.NumPy(), t)
}

// torchTypes maps PyTorch's dtype objects to element types.
var torchTypes = map[string]string{
	"torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16",
	"torch.int64": "I64", "torch.int32": "I32", "torch.int16": "I16", "torch.int8": "I8", "torch.uint8": "U8",
	"torch.bool": "BOOL", "torch.uint16": "U16", "torch.uint32": "U32", "torch.uint64": "U64",
}

// rebuildTensor takes (storage, offset, size, stride) and, in versions 2 and 3, requires_grad, hooks, dtype (version
// 3), metadata.
func rebuildTensor(args pickle.Tuple) (any, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("expected at least 4 arguments, found %d", len(args))
	}
	s, ok1 := args[0].(typed)
	offset, ok2 := args[1].(int64)
	shape, err := dims(args[2])
	if err != nil {
		return nil, err
	}
	stride, err := dims(args[3])
	if err != nil {
		return nil, err
	}
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("expected a storage and an offset, found a %s and a %s", pickle.TypeName(args[0]),
			pickle.TypeName(args[1]))
	}
	if len(args) > 6 {
		if c, ok := args[6].(*pickle.Class); ok { // version 3: the storage counts bytes
			dtype, known := torchTypes[c.Name]
			if !known {
				return nil, fmt.Errorf("%s is not an element type", c.Name)
			}
			bytes := s.numel * int64(elements.Sizes[s.dtype])
			s = typed{s.storage, dtype, bytes / int64(elements.Sizes[dtype])}
		}
	}
	t, err := newView(s, offset, shape, stride)
	if err != nil {
		return nil, err
	}
	if len(args) > 4 {
		t.RequiresGrad, _ = args[4].(bool)
	}
	return t, nil
}

// dims reads a tuple of sizes or strides.
func dims(v any) ([]int, error) {
	items, ok := pickle.Items(v)
	if !ok || len(items) > 64 {
		return nil, fmt.Errorf("shape or strides are a %s: expected a tuple of at most 64", pickle.TypeName(v))
	}
	d := make([]int, len(items))
	for i, item := range items {
		n, ok := item.(int64)
		if !ok || n < 0 || int64(int(n)) != n {
			return nil, fmt.Errorf("dimension %v is not a size", item)
		}
		d[i] = int(n)
	}
	return d, nil
}

// rebuildParameter takes (tensor, requires_grad, hooks[, state]).
func rebuildParameter(args pickle.Tuple) (any, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("expected at least 2 arguments, found %d", len(args))
	}
	t, ok := args[0].(*Tensor)
	if !ok {
		return nil, fmt.Errorf("expected a tensor, found a %s", pickle.TypeName(args[0]))
	}
	p := *t
	p.Parameter = true
	p.RequiresGrad, _ = args[1].(bool)
	return &p, nil
}

// rebuildSize returns a torch.Size as a tuple.
func rebuildSize(args pickle.Tuple) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("expected 1 argument, found %d", len(args))
	}
	items, ok := pickle.Items(args[0])
	if !ok {
		return nil, fmt.Errorf("expected a tuple, found a %s", pickle.TypeName(args[0]))
	}
	return append(Tuple{}, items...), nil
}

// rebuildDevice returns a torch.device as text, "cpu" or "cuda:0".
func rebuildDevice(args pickle.Tuple) (any, error) {
	if len(args) == 0 || len(args) > 2 {
		return nil, fmt.Errorf("expected 1 or 2 arguments, found %d", len(args))
	}
	kind, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("expected a str, found a %s", pickle.TypeName(args[0]))
	}
	if len(args) == 1 {
		return kind, nil
	}
	index, ok := args[1].(int64)
	if !ok {
		return nil, fmt.Errorf("device index is a %s", pickle.TypeName(args[1]))
	}
	return fmt.Sprintf("%s:%d", kind, index), nil
}
