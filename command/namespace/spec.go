package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/hashicorp/hcl"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxSpec bounds what is read of a specification.
const maxSpec = 1 << 20

// given is the namespace that the argument stands for.
func given(ctx context.Context, e *term.Env, c *api.Client, asJSON bool) (*api.Namespace, error) {
	text, err := e.Input(e.Arg(0), maxSpec)
	if errors.Is(err, fs.ErrNotExist) && !asJSON {
		return named(ctx, c, e.Arg(0))
	}
	if err != nil {
		return nil, fmt.Errorf("Error reading the namespace specification: %w", err)
	}
	return parse(text)
}

// named is the namespace of the name as it is, or a new one.
func named(ctx context.Context, c *api.Client, name string) (*api.Namespace, error) {
	all, _, err := c.Namespaces().PrefixList(name, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error retrieving namespaces: %w", err)
	}
	for _, n := range all {
		if n.Name == name {
			return n, nil
		}
	}
	return &api.Namespace{Name: name}, nil
}

// parse reads a specification: the first version of HCL or JSON, in which what looks
// like an interpolation is a text for the servers.
func parse(text []byte) (*api.Namespace, error) {
	root := map[string]any{}
	if err := hcl.Decode(&root, string(text)); err != nil {
		return nil, fmt.Errorf("Error parsing the namespace specification: %w", err)
	}
	s := reader{}
	n := &api.Namespace{Name: s.text(root, "name"), Description: s.text(root, "description"), Quota: s.text(root, "quota"),
		Meta: s.texts(root, "meta"), RequiredExtraClaims: s.texts(root, "required_extra_claims"), OptionalExtraClaims: s.texts(root, "optional_extra_claims")}
	if c := s.block(root, "capabilities"); c != nil {
		n.Capabilities = &api.NamespaceCapabilities{EnabledTaskDrivers: s.list(c, "enabled_task_drivers"), DisabledTaskDrivers: s.list(c, "disabled_task_drivers"),
			EnabledNetworkModes: s.list(c, "enabled_network_modes"), DisabledNetworkModes: s.list(c, "disabled_network_modes")}
		s.rest(c, "capabilities.")
	}
	if c := s.block(root, "node_pool_config"); c != nil {
		n.NodePoolConfiguration = &api.NamespaceNodePoolConfiguration{Default: s.text(c, "default"), Allowed: s.list(c, "allowed"), Denied: s.list(c, "denied")}
		s.rest(c, "node_pool_config.")
	}
	for _, name := range []string{"vault", "consul"} {
		if _, asked := root[name]; asked {
			s.fault("%s: not part of this version", name)
			delete(root, name)
		}
	}
	s.rest(root, "")
	if n.Name == "" {
		s.fault(`no name: add name = "..."`)
	}
	return n, errors.Join(s.faults...)
}

// reader takes what it knows out of what was decoded, and collects faults.
type reader struct{ faults []error }

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("Namespace specification: "+format, args...))
}

// rest says what nobody took.
func (r *reader) rest(from map[string]any, prefix string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.fault("no namespace has %s%s", prefix, name)
	}
}

func (r *reader) text(from map[string]any, name string) string {
	v, given := from[name]
	delete(from, name)
	text, ok := v.(string)
	if given && !ok {
		r.fault("%s: a string is expected", name)
	}
	return text
}

// block takes the one block of a name, nil when there is none.
func (r *reader) block(from map[string]any, name string) map[string]any {
	v, given := from[name]
	delete(from, name)
	blocks, ok := v.([]map[string]any)
	switch {
	case !given:
		return nil
	case !ok || len(blocks) != 1:
		r.fault("%s: one block is expected", name)
		return nil
	}
	return blocks[0]
}

// texts takes a block of strings.
func (r *reader) texts(from map[string]any, name string) map[string]string {
	block := r.block(from, name)
	if block == nil {
		return nil
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(block)) {
		out[key] = r.text(block, key)
	}
	return out
}

func (r *reader) list(from map[string]any, name string) []string {
	v, given := from[name]
	delete(from, name)
	items, ok := v.([]any)
	if !given {
		return nil
	}
	out := []string{} // an empty list is not the same as none
	for _, item := range items {
		text, isText := item.(string)
		ok = ok && isText
		out = append(out, text)
	}
	if !ok {
		r.fault("%s: a list of strings is expected", name)
	}
	return out
}
