package testconsul

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"
)

// aclRead requires the right to read ACL objects.
func (c *call) aclRead() (uint64, error) {
	if err := c.enabled(); err != nil {
		return 0, err
	}
	if err := c.need("read", "acl", ""); err != nil {
		return 0, err
	}
	return c.a.at("acl"), nil
}

// aclWrite decodes the body, if there is one, and requires the right to change ACL objects.
func (c *call) aclWrite(into any) error {
	if err := c.enabled(); err != nil {
		return err
	}
	if into != nil {
		if err := c.decode(into); err != nil {
			return err
		}
	}
	return c.need("write", "acl", "")
}

func missing(kind string) error {
	return refuse(http.StatusNotFound, "Requested %s does not exist: ACL not found", kind)
}

// list returns the objects of a map, sorted by key.
func list[T any](objects map[string]*T) []*T {
	out := []*T{}
	for _, k := range slices.Sorted(maps.Keys(objects)) {
		out = append(out, objects[k])
	}
	return out
}

// remove serves the deletion of an object. Consul answers true also if it does not exist.
func remove[T any](c *call, objects map[string]*T, key string) (any, error) {
	if err := c.aclWrite(nil); err != nil {
		return nil, err
	}
	delete(objects, key)
	c.a.touch("acl")
	return true, nil
}

func authMethods(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	out := []*api.ACLAuthMethodListEntry{}
	for _, m := range list(c.a.acl.methods) {
		out = append(out, &api.ACLAuthMethodListEntry{Name: m.Name, Type: m.Type, DisplayName: m.DisplayName, Description: m.Description,
			MaxTokenTTL: m.MaxTokenTTL, TokenLocality: m.TokenLocality, CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex})
	}
	return out, index, err
}

func authMethod(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	m := c.a.acl.methods[c.PathValue("name")]
	if m == nil && err == nil {
		err = missing("auth method")
	}
	return m, index, err
}

func writeAuthMethod(c *call) (any, error) {
	type plain api.ACLAuthMethod // without the methods, which accept unknown fields
	var body struct {
		MaxTokenTTL string
		plain
	}
	if err := c.aclWrite(&body); err != nil {
		return nil, err
	}
	in := api.ACLAuthMethod(body.plain)
	if body.MaxTokenTTL != "" {
		ttl, err := time.ParseDuration(body.MaxTokenTTL)
		if err != nil {
			return nil, c.invalid("Invalid Auth Method: %v", err)
		}
		in.MaxTokenTTL = ttl
	}
	if in.Name == "" || in.Namespace != "" {
		return nil, c.invalid("Invalid Auth Method: name %q, namespace %q", in.Name, in.Namespace)
	}
	if _, err := readMethod(&in); err != nil {
		return nil, c.invalid("Invalid Auth Method: %v", err)
	}
	name := c.PathValue("name") // of an update
	switch old := c.a.acl.methods[in.Name]; {
	case name != "" && (in.Name != name || old == nil || old.Type != in.Type):
		return nil, c.invalid("Invalid Auth Method: cannot update %q to name %q, type %q", name, in.Name, in.Type)
	case name == "" && old != nil:
		return nil, refuse(http.StatusInternalServerError, "Invalid Auth Method: auth method with name %q already exists", in.Name)
	case old != nil:
		in.CreateIndex = old.CreateIndex
	}
	in.ModifyIndex = c.a.touch("acl")
	in.CreateIndex = cmp.Or(in.CreateIndex, in.ModifyIndex)
	c.a.acl.methods[in.Name] = &in
	return &in, nil
}

// deleteAuthMethod also deletes the binding rules and the tokens of the method.
func deleteAuthMethod(c *call) (any, error) {
	name := c.PathValue("name")
	done, err := remove(c, c.a.acl.methods, name)
	if err == nil {
		maps.DeleteFunc(c.a.acl.bindings, func(_ string, b *api.ACLBindingRule) bool { return b.AuthMethod == name })
		maps.DeleteFunc(c.a.acl.tokens, func(_ string, t *token) bool { return t.AuthMethod == name })
	}
	return done, err
}

func bindingRules(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	of := c.URL.Query().Get("authmethod")
	out := slices.DeleteFunc(list(c.a.acl.bindings), func(b *api.ACLBindingRule) bool { return of != "" && b.AuthMethod != of })
	return out, index, err
}

func writeBindingRule(c *call) (any, error) {
	var in api.ACLBindingRule
	if err := c.aclWrite(&in); err != nil {
		return nil, err
	}
	switch {
	case in.ID != "":
		return nil, c.invalid("Cannot specify the ID when creating a new binding rule")
	case c.a.acl.methods[in.AuthMethod] == nil:
		return nil, refuse(http.StatusNotFound, "cannot find auth method with name %q", in.AuthMethod)
	case in.BindType != api.BindingRuleBindTypeService && in.BindType != api.BindingRuleBindTypeRole:
		return nil, c.invalid("Invalid Binding Rule: BindType %q is not supported", in.BindType)
	case in.BindName == "" || in.BindVars != nil || in.Selector != "" && !selector.MatchString(in.Selector):
		return nil, c.invalid("Invalid Binding Rule: BindName %q, Selector %q", in.BindName, in.Selector)
	}
	in.ID, in.CreateIndex = newID(), c.a.touch("acl")
	in.ModifyIndex = in.CreateIndex
	c.a.acl.bindings[in.ID] = &in
	return &in, nil
}

func deleteBindingRule(c *call) (any, error) { return remove(c, c.a.acl.bindings, c.PathValue("id")) }

func policies(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	out := []*api.ACLPolicyListEntry{}
	for _, p := range list(c.a.acl.policies) {
		out = append(out, &api.ACLPolicyListEntry{ID: p.ID, Name: p.Name, Description: p.Description, Datacenters: p.Datacenters,
			CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex})
	}
	return out, index, err
}

func policyByName(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	for _, p := range c.a.acl.policies {
		if p.Name == c.PathValue("name") {
			return p, index, err
		}
	}
	if err == nil {
		err = missing("policy")
	}
	return nil, index, err
}

func writePolicy(c *call) (any, error) {
	var in api.ACLPolicy
	if err := c.aclWrite(&in); err != nil {
		return nil, err
	}
	if in.ID != "" || in.Name == "" {
		return nil, c.invalid("Invalid Policy: ID %q, name %q", in.ID, in.Name)
	}
	if _, err := parseRules(in.Rules); err != nil {
		return nil, c.invalid("%v", err)
	}
	for _, p := range c.a.acl.policies {
		if p.Name == in.Name {
			return nil, refuse(http.StatusInternalServerError, "Invalid Policy: A Policy with Name %q already exists", in.Name)
		}
	}
	in.ID, in.CreateIndex = newID(), c.a.touch("acl")
	in.ModifyIndex = in.CreateIndex
	c.a.acl.policies[in.ID] = &in
	return &in, nil
}

func deletePolicy(c *call) (any, error) { return remove(c, c.a.acl.policies, c.PathValue("id")) }

func roles(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	return list(c.a.acl.roles), index, err
}

func roleByName(c *call) (any, uint64, error) {
	index, err := c.aclRead()
	for _, r := range c.a.acl.roles {
		if r.Name == c.PathValue("name") {
			return r, index, err
		}
	}
	if err == nil {
		err = missing("role")
	}
	return nil, index, err
}

func writeRole(c *call) (any, error) {
	var in api.ACLRole
	if err := c.aclWrite(&in); err != nil {
		return nil, err
	}
	if in.ID != "" || in.Name == "" || len(in.TemplatedPolicies)+len(in.NodeIdentities) > 0 {
		return nil, c.invalid("Invalid Role: ID %q, name %q", in.ID, in.Name)
	}
	for _, r := range c.a.acl.roles {
		if r.Name == in.Name {
			return nil, refuse(http.StatusInternalServerError, "Invalid Role: A Role with Name %q already exists", in.Name)
		}
	}
	for _, link := range in.Policies {
		if err := c.resolve(link); err != nil {
			return nil, err
		}
	}
	in.ID, in.CreateIndex = newID(), c.a.touch("acl")
	in.ModifyIndex = in.CreateIndex
	c.a.acl.roles[in.ID] = &in
	return &in, nil
}

// resolve completes a link to a policy, by ID or by name.
func (c *call) resolve(link *api.ACLLink) error {
	for id, p := range c.a.acl.policies {
		if link.ID == id || link.ID == "" && link.Name == p.Name {
			link.ID, link.Name = id, p.Name
			return nil
		}
	}
	return c.invalid("No such ACL policy with name %q", link.Name)
}

func deleteRole(c *call) (any, error) { return remove(c, c.a.acl.roles, c.PathValue("id")) }
