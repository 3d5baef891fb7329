package testvault

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// namespace is the one of Config.Namespace. Its parent has its description.
type namespace struct {
	exists bool
	meta   map[string]string
}

// parent serves a request in the parent of the namespace, which may be the root namespace.
func (v *Vault) parent(fn func(*call) (*answer, error)) http.HandlerFunc {
	return v.guardedIn(parentOf(v.cfg.Namespace), fn)
}

func parentOf(namespace string) string {
	if i := strings.LastIndexByte(namespace, '/'); i >= 0 {
		return namespace[:i]
	}
	return ""
}

// license answers as Vault CE, which has no such endpoint, or as Vault Enterprise.
func license(c *call) (*answer, error) {
	if !c.v.cfg.Enterprise {
		return nil, refuse(http.StatusNotFound, "unsupported path")
	}
	return &answer{Data: map[string]any{"autoloading_used": true}}, nil
}

// child serves the description of the namespace.
func child(c *call) (*answer, error) {
	if parent := parentOf(c.v.cfg.Namespace); strings.TrimPrefix(c.v.cfg.Namespace, parent+"/") != c.PathValue("name") || c.v.cfg.Namespace == "" {
		c.fault("another namespace than %q", c.v.cfg.Namespace)
		return nil, missing
	}
	n := &c.v.namespace
	switch c.Method {
	case http.MethodGet:
		if !n.exists {
			return nil, missing
		}
		return &answer{Data: map[string]any{"id": "abc12", "path": c.v.cfg.Namespace + "/", "custom_metadata": n.meta}}, nil
	case http.MethodDelete:
		*n = namespace{}
		c.v.mounts, c.v.auths, c.v.policies = map[string]*mount{}, map[string]*auth{}, map[string]document{}
		c.v.standard()
		return nil, nil
	}
	var in struct {
		Metadata map[string]string `json:"custom_metadata"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if !n.exists {
		c.v.mounts = map[string]*mount{} // a new one is empty
	}
	*n = namespace{true, in.Metadata}
	return nil, nil
}

// standard adds the policies that each namespace has.
func (v *Vault) standard() {
	v.policies["default"] = mustParse(defaultPolicy)
	v.policies["root"] = mustParse(`path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }`)
}

// listMounts serves all engines, with those that every namespace has.
func listMounts(c *call) (*answer, error) {
	out := map[string]any{"cubbyhole/": map[string]any{"type": "cubbyhole"}, "identity/": map[string]any{"type": "identity"},
		"sys/": map[string]any{"type": "system"}}
	for _, at := range slices.Sorted(maps.Keys(c.v.mounts)) {
		m := c.v.mounts[at]
		out[at] = map[string]any{"type": m.kind, "options": m.options(), "accessor": m.accessor}
	}
	return &answer{Data: out}, nil
}

// listAuths serves all auth methods.
func listAuths(c *call) (*answer, error) {
	out := map[string]any{"token/": map[string]any{"type": "token"}}
	for at, a := range c.v.auths {
		out[at] = map[string]any{"type": "jwt", "accessor": a.accessor, "description": a.description}
	}
	return &answer{Data: out}, nil
}
