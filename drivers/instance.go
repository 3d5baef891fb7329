package drivers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxName is the maximum length of an instance's name.
const maxName = 64

// Block is a plugin block of an agent's configuration.
type Block struct {
	Backend string // name of the kind; empty for the label
	Config  map[string]any
}

// Instance is a kind under a name, with a configuration.
type Instance struct {
	Name   string
	Kind   Kind
	Label  string         // label of the plugin block, which may be an alias of the kind
	Config map[string]any // body of its config block
}

// BlockError is an error in a plugin block.
type BlockError struct {
	Label string
	Key   string // "backend" or "config"; empty for the label
	Err   error
	// Unknown reports that no kind has the name of the backend.
	Unknown bool
}

// Error returns the label, the key and the error.
func (e *BlockError) Error() string { return fmt.Sprintf("plugin %q: %v", e.Label, e.Err) }

// Unwrap returns the error.
func (e *BlockError) Unwrap() error { return e.Err }

// Instances returns the instances of the kinds that the plugin blocks configure, by label, sorted by
// name. Each kind that is not OptIn, and has no block of its own, is an instance without
// configuration. The blocks that are wrong are returned as errors.
func Instances(kinds []Kind, blocks map[string]Block) (list []Instance, wrong []*BlockError) {
	byName := map[string]Instance{}
	for _, label := range slices.Sorted(maps.Keys(blocks)) {
		i, err := instance(kinds, label, blocks[label])
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if other, twice := byName[i.Name]; twice {
			wrong = append(wrong, &BlockError{Label: label, Err: fmt.Errorf("plugin %q configures the same driver: keep one block", other.Label)})
			continue
		}
		byName[i.Name] = i
	}
	for _, k := range kinds {
		if _, ok := byName[k.Name]; !ok && !k.OptIn {
			byName[k.Name] = Instance{Name: k.Name, Kind: k, Label: k.Name}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Instance) int { return cmp.Compare(a.Name, b.Name) }), wrong
}

// instance returns the instance of one block.
func instance(kinds []Kind, label string, b Block) (Instance, *BlockError) {
	fault := func(key, format string, args ...any) (Instance, *BlockError) {
		return Instance{}, &BlockError{Label: label, Key: key, Err: fmt.Errorf(format, args...)}
	}
	if !validName(label) {
		return fault("", "the label is not a name: use 1 to %d letters, digits, - and _", maxName)
	}
	i := Instance{Name: label, Label: label, Config: b.Config}
	backend := cmp.Or(b.Backend, label)
	if own := named(kinds, label); own != nil {
		if backend != label && backend != own.Name {
			return fault("backend", "%q is the name of the driver %s: choose another label for an instance of %q", label, own.Name, backend)
		}
		i.Name, backend = own.Name, own.Name
	}
	at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == backend })
	if at < 0 {
		_, err := fault("backend", "unknown driver %q: set backend to one of %s, or put its program in plugin_dir", backend, names(kinds))
		if err.Unknown = true; b.Backend == "" {
			err.Key = ""
		}
		return i, err
	}
	i.Kind = kinds[at]
	if check := i.Kind.CheckConfig; check != nil {
		if err := check(b.Config); err != nil {
			return fault("config", "config of driver %s: %w", backend, err)
		}
	}
	return i, nil
}

// named returns the kind with this name or alias, or nil.
func named(kinds []Kind, name string) *Kind {
	for _, k := range kinds {
		if k.Name == name || slices.Contains(k.Aliases, name) {
			return &k
		}
	}
	return nil
}

func names(kinds []Kind) string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return strings.Join(out, ", ")
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}
