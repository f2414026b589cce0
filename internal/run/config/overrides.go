package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/system/options"
	"vsetrain/models"
)

const envPrefix = "VSETRAIN_"

// notConfig lists the VSETRAIN_* variables that are no configuration keys.
var notConfig = []string{
	"VSETRAIN_BLAS",         // library of matrix products
	"VSETRAIN_OPENBLAS",     // file of OpenBLAS
	"VSETRAIN_MKL",          // file of MKL
	"VSETRAIN_CUDA_DRIVER",  // file of libcuda
	"VSETRAIN_CUBLAS",       // file of cuBLAS
	"VSETRAIN_KERNELS",      // base: no CUDA kernels for compute capability 8.0
	"VSETRAIN_MPI",          // file of MPI
	"VSETRAIN_NVML",         // file of NVIDIA's management library
	"VSETRAIN_NCCL",         // file of NCCL
	"VSETRAIN_ONNXRUNTIME",  // file of ONNX Runtime
	"VSETRAIN_EMULATOR",     // built emulated driver of the tests
	"VSETRAIN_DATA",         // real data of the tests
	"VSETRAIN_GOLDEN",       // golden cases of the tests
	"VSETRAIN_LAUNCH_TOKEN", // secret of the ranks of a training
	"VSETRAIN_LAUNCH_PLACE", // which rank a process is that vsetrain started
	"VSETRAIN_TOKEN",        // what requests to vsetrain serve must bear
	"VSETRAIN_VERSION",      // of an image
}

// versionKey has no variable: the version of a configuration belongs into its file.
const versionKey = "version"

// serviceLink is what Kubernetes puts into every pod of a namespace for a service whose name begins with vsetrain.
var serviceLink = regexp.MustCompile(`^VSETRAIN_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|` +
	`PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$`)

// envName returns the environment variable of a key: VSETRAIN_OPTIM_LR of optim.lr.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// envLayer decodes the VSETRAIN_* variables of environ ("NAME=value"). An empty variable counts as not set. The prefix
// is not ours alone: what Kubernetes sets for services is passed over, and so is a name that is like none of ours. A
// name that is spelt nearly as one of ours, or begins with a section of the configuration, is a mistake.
func envLayer(environ []string, p *problems) layer {
	byName, names := map[string]*field{}, slices.Clone(notConfig)
	root.leaves(func(f *field) {
		if f.path != versionKey {
			byName[envName(f.path)] = f
			names = append(names, envName(f.path))
		}
	})
	out := layer{}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(entry, "=")
		f, at := byName[name], Source{Name: name}
		switch {
		case !strings.HasPrefix(name, envPrefix), text == "", slices.Contains(notConfig, name):
		case f != nil:
			out.text(f.path, text, at, p)
		case !serviceLink.MatchString(name):
			if meant := nearNames(name, text, names); meant != "" {
				p.add(at, "", "unknown environment variable; %s", meant)
			}
		}
	}
	return out
}

// nearNames says which variable may be meant by an unknown one: one that is spelt nearly so, one of the section that it
// begins with, or one of the keys that it names without their section. It is "" where there is none.
func nearNames(name, text string, names []string) string {
	word := strings.TrimPrefix(name, envPrefix)
	short := make([]string, len(names)) // the prefix does not count as likeness
	for i, n := range names {
		short[i] = strings.TrimPrefix(n, envPrefix)
	}
	if near := options.Nearest(word, short); near != "" {
		return "did you mean " + envPrefix + near + "?"
	}
	var meant []string
	for _, section := range root.children {
		key, ok := strings.CutPrefix(strings.ToLower(word), section.key+"_")
		if !ok || !section.isSection() {
			continue
		}
		for _, path := range alike(root, section, key, text) {
			meant = append(meant, envName(path))
		}
		if meant == nil {
			return fmt.Sprintf("%s has the keys %s, of which %s is a variable", section.key,
				strings.Join(section.keys(), ", "), envName(section.children[0].path))
		}
	}
	root.leaves(func(f *field) {
		if strings.ToUpper(f.key) == word {
			meant = append(meant, envName(f.path))
		}
	})
	if meant == nil {
		return ""
	}
	return "did you mean " + strings.Join(meant, " or ") + "?"
}

// Alias is a flag that was given and stands for a key of the configuration.
type Alias struct{ Flag, Key, Text string } // Flag as it is typed: "--overfit"

// setLayer decodes --set key=value flags, of which a later one wins over an earlier one, and flags that are aliases.
func setLayer(sets []string, aliases []Alias, p *problems) layer {
	out := layer{}
	for _, s := range sets {
		at := Source{Name: setFlag}
		path, text, ok := strings.Cut(s, "=")
		if path = strings.TrimSpace(path); !ok || path == "" {
			p.add(at, "", "expected key=value such as optim.lr=0.001, found %q", s)
			continue
		}
		out.text(path, text, at, p)
	}
	for _, a := range aliases {
		if s, twice := out[a.Key]; twice && s.source.Name == setFlag {
			p.add(Source{Name: a.Flag}, a.Key, "%s sets it too; leave one out", setFlag)
		}
		out.text(a.Key, a.Text, Source{Name: a.Flag}, p)
	}
	return out
}

const setFlag = "--set"

// text decodes the text of a variable or flag into the layer.
func (l layer) text(path, text string, at Source, p *problems) {
	if f := leafOf(path, text, at, p); f != nil {
		if v, ok := decodeText(f, text, at, p); ok {
			l[path] = setting{v, at}
		}
	}
}

// Given decodes the --set flags of commands that open weights: options of a network, key=value with a key of section
// model. An error lists every mistake.
func Given(sets []string) (models.Given, error) {
	var p problems
	given := models.Given{}
	for path, s := range setLayer(sets, nil, &p) {
		key, ok := strings.CutPrefix(path, "model.")
		if !ok {
			p.add(s.source, path, "expected an option of the network, such as model.scan.lambda=9")
		}
		given[key] = s.value
	}
	return given, p.err()
}

// leafOf returns the leaf of a path, which is to have a value; nil after a mistake.
func leafOf(path, value string, at Source, p *problems) *field {
	f := root.find(path)
	switch {
	case f == nil && removedKey(path, value, at, p):
	case f == nil:
		p.add(at, path, "unknown key; %s", instead(root, path, value))
	case f.isSection():
		p.add(at, path, "is a section; set one of its keys: %s", strings.Join(f.keys(), ", "))
	default:
		return f
	}
	return nil
}

// decodeText decodes the text of a variable or flag: strings as they stand, everything else as YAML.
func decodeText(f *field, text string, at Source, p *problems) (any, bool) {
	if f.typ.Kind() == reflect.String {
		return decodeLeaf(f, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}, at, p)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 ||
		strings.ContainsAny(text, "#\n\r") { // else a comment or a second document would be left out
		p.value(at, f, Describe(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}))
		return nil, false
	}
	return decodeLeaf(f, doc.Content[0], at, p)
}

// Setting is a value of a key that another file gives, such as the file of a sweep, with the places of key and value
// for messages.
type Setting struct {
	Key   string // dotted path, "optim.lr"
	Value *yaml.Node
	KeyAt Source
	At    Source
}

// settingsLayer decodes settings; a later one wins over an earlier one.
func settingsLayer(settings []Setting, p *problems) layer {
	out := layer{}
	for _, s := range settings {
		if f := leafOf(s.Key, s.Value.Value, s.KeyAt, p); f != nil {
			if v, ok := decodeLeaf(f, s.Value, s.At, p); ok {
				out[s.Key] = setting{v, s.At}
			}
		}
	}
	return out
}
