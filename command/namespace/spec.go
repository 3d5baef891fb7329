package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/spec"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxSpec is the maximum size of a specification, in bytes.
const maxSpec = 1 << 20

// given returns the namespace of the argument: a file, a name or "-".
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

// named returns the existing namespace with the name, or a new one.
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

// parse parses a specification.
func parse(text []byte) (*api.Namespace, error) {
	s, root, err := spec.Parse("namespace", text)
	if err != nil {
		return nil, err
	}
	n := &api.Namespace{
		Name:                s.Text(root, "name"),
		Description:         s.Text(root, "description"),
		Quota:               s.Text(root, "quota"),
		Privileged:          s.Text(root, "privileged"),
		Meta:                s.Texts(root, "meta"),
		RequiredExtraClaims: s.Texts(root, "required_extra_claims"),
		OptionalExtraClaims: s.Texts(root, "optional_extra_claims"),
	}
	if c := s.Block(root, "capabilities"); c != nil {
		n.Capabilities = &api.NamespaceCapabilities{EnabledTaskDrivers: s.List(c, "enabled_task_drivers"),
			DisabledTaskDrivers: s.List(c, "disabled_task_drivers"),
			EnabledNetworkModes: s.List(c, "enabled_network_modes"), DisabledNetworkModes: s.List(c, "disabled_network_modes")}
		s.Rest(c, "capabilities.")
	}
	if c := s.Block(root, "node_pool_config"); c != nil {
		n.NodePoolConfiguration = &api.NamespaceNodePoolConfiguration{Default: s.Text(c, "default"), Allowed: s.List(c, "allowed"),
			Denied: s.List(c, "denied")}
		s.Rest(c, "node_pool_config.")
	}
	if c := s.Block(root, "isolation"); c != nil {
		n.Isolation = &api.NamespaceIsolation{Minimum: s.Text(c, "minimum"), Enforce: s.Bool(c, "enforce"), Warn: s.Text(c, "warn"),
			Claim: s.Bool(c, "claim")}
		s.Rest(c, "isolation.")
	}
	s.Refuse(root, "", "vault", "consul")
	s.Rest(root, "")
	if n.Name == "" {
		s.Fault(`no name: add name = "..."`)
	}
	return n, s.Err()
}
