package models

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
)

// This file finds the state dicts in a checkpoint of PyTorch, and the parts of a network that they may be.

// state is a state dict: tensors by name.
type state map[string]*torchfile.Tensor

// reading is one way to read the weights of a network from a checkpoint.
type reading struct {
	key    string // of the state dicts
	states []state
}

// readings finds the state dicts of a checkpoint under "model", or otherwise all that may be the weights. rest is the
// checkpoint without them.
func readings(v any) (list []reading, rest *torchfile.Dict, err error) {
	top, isDict := v.(*torchfile.Dict)
	if states, err := statesOf(v); err == nil && states != nil { // the file holds nothing else
		return []reading{{"", states}}, nil, nil
	} else if !isDict {
		return nil, nil, err
	}
	if v, there := top.Get("model"); there {
		states, err := statesOf(v)
		if err == nil && states == nil {
			err = fmt.Errorf("found a %s there", pickle.TypeName(v))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("not a checkpoint of a reference repository: expected a list of state dicts "+
				"under the key \"model\", %w; %s", err, savedState)
		}
		list = []reading{{"model", states}}
	}
	var all []state
	flat := &torchfile.Dict{} // tensors beside other entries
	rest = &torchfile.Dict{}
	for k, v := range top.All() {
		states, err := statesOf(v)
		t, isTensor := v.(*torchfile.Tensor)
		switch key, _ := pickle.Text(k); {
		case isTensor && len(t.Shape) > 0:
			flat.Set(k, v)
		case err != nil || states == nil:
			rest.Set(k, v)
		case len(list) == 0 || list[0].key != "model":
			list, all = append(list, reading{fmt.Sprintf("%.40q", key), states}), append(all, states...)
		}
	}
	if len(list) == 0 {
		states, err := statesOf(flat)
		if err == nil && states != nil {
			return []reading{{"", states}}, rest, nil
		}
		return nil, nil, fmt.Errorf("not a checkpoint of a reference repository: expected a list of state dicts under "+
			"the key \"model\", found %s; %s", keysOf(top), savedState)
	}
	if len(list) > 1 {
		list = append(list, reading{"all of them", all})
	}
	return list, rest, nil
}

// savedState explains how to write a file that can be read.
const savedState = "write one in Python: torch.save({\"model\": [part.state_dict() for part in parts], " +
	"\"opt\": vars(opt)}, FILE)"

// statesOf returns the state dicts in a value: a list, a dict of parts, or a single state dict. Other values have none.
// A state dict with anything but tensors is an error.
func statesOf(v any) (states []state, err error) {
	items, ok := pickle.Items(v)
	if d, isDict := v.(*torchfile.Dict); isDict {
		tensors, more := 0, 0
		for k, x := range d.All() {
			switch _, isTensor := x.(*torchfile.Tensor); {
			case isTensor:
				tensors++
			case isExtra(k, x):
				more++
			default:
				items = append(items, x)
			}
		}
		whole := tensors > 0 && tensors+more == d.Len()
		if whole {
			items = []any{d}
		}
		ok = whole || len(items) > 0 && len(items) == d.Len()
		for _, x := range items {
			_, isDict := x.(*torchfile.Dict)
			ok = ok && isDict
		}
	}
	if !ok {
		return nil, nil
	}
	empty := true
	for i, it := range items {
		d, ok := it.(*torchfile.Dict)
		if !ok {
			return nil, fmt.Errorf("found a %s as state dict %d", pickle.TypeName(it), i)
		}
		s, owners := state{}, map[string]string{}
		for k, v := range d.All() {
			name, okName := pickle.Text(k)
			t, okTensor := v.(*torchfile.Tensor)
			if isExtra(k, v) {
				continue
			}
			if !okName || !okTensor {
				return nil, fmt.Errorf("found a %s under %v in state dict %d", pickle.TypeName(v), k, i)
			}
			bare := unwrapped(name)
			if other, twice := owners[bare]; twice {
				return nil, fmt.Errorf("found both %s and %s in state dict %d, which are one tensor", other, name, i)
			}
			owners[bare] = name
			if !strings.HasSuffix(bare, ".num_batches_tracked") && !strings.HasSuffix(bare, ".position_ids") {
				// the step counter of a batch norm, and 0, 1, 2, … in some versions of BERT, have no effect
				s[bare] = t
			}
			empty = false
		}
		states = append(states, s)
	}
	if empty {
		return nil, nil
	}
	return states, nil
}

// isExtra reports whether an entry of a state dict is a module's extra state (get_extra_state).
func isExtra(key, value any) bool {
	name, _ := pickle.Text(key)
	_, isTensor := value.(*torchfile.Tensor)
	return !isTensor && strings.HasSuffix(name, "_extra_state")
}

// wrappers are the names that PyTorch gives a module inside a wrapper: data parallelism, torch.compile, Lightning's
// Fabric, FSDP, and activation checkpointing.
var wrappers = []string{"module", "_orig_mod", "_forward_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

// unwrapped returns the name of a tensor without wrappers.
func unwrapped(name string) string {
	parts := slices.DeleteFunc(strings.Split(name, "."), func(p string) bool { return slices.Contains(wrappers, p) })
	return strings.Join(parts, ".")
}

// keysOf lists the keys of a dict for a message.
func keysOf(top *torchfile.Dict) string {
	var keys []string
	for k := range top.All() {
		name, ok := pickle.Text(k)
		if !ok {
			name = pickle.TypeName(k)
		}
		if len(keys) == 6 {
			keys = append(keys, "...")
			break
		}
		keys = append(keys, fmt.Sprintf("%.40q", name))
	}
	if len(keys) == 0 {
		return "an empty dict"
	}
	return "a dict with the keys " + strings.Join(keys, ", ")
}

// arrangements visits the ways in which state dicts may be the parts of a network: in any order, with empty parts
// added, without a common prefix of all names, and with a single state dict cut into parts.
func arrangements(given []state) iter.Seq[[]state] {
	const mostParts, deepest = 4, 3
	return func(yield func([]state) bool) {
		for depth := range deepest {
			states := make([]state, len(given))
			for i, s := range given {
				states[i] = s.below(depth)
			}
			choices := [][]state{states}
			if len(states) == 1 {
				choices = append(choices, states[0].parts())
			}
			for _, states := range choices {
				for n := len(states); n <= mostParts; n++ {
					if !orders(states, 0, yield) {
						return
					}
					states = append(slices.Clip(states), state{})
				}
			}
		}
	}
}

// orders visits a list in all orders of its elements from i on, beginning with its own order.
func orders(list []state, i int, yield func([]state) bool) bool {
	if i == len(list) {
		return yield(slices.Clone(list))
	}
	for k := i; k < len(list); k++ {
		list[i], list[k] = list[k], list[i]
		more := orders(list, i+1, yield)
		list[i], list[k] = list[k], list[i]
		if !more {
			return false
		}
	}
	return true
}

// below removes up to depth modules from the front of all names, as long as all names begin with the same module.
func (s state) below(depth int) state {
	for range depth {
		parts := s.parts()
		if len(parts) != 1 {
			return s
		}
		s = parts[0]
	}
	return s
}

// parts cuts a state dict by the first module of the names, in their order. It returns nil if a name has no module.
func (s state) parts() (list []state) {
	by := map[string]state{}
	for name, t := range s {
		module, rest, ok := strings.Cut(name, ".")
		if !ok {
			return nil
		}
		if by[module] == nil {
			by[module] = state{}
		}
		by[module][rest] = t
	}
	for _, module := range slices.Sorted(maps.Keys(by)) {
		list = append(list, by[module])
	}
	return list
}
