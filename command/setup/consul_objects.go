package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/command/term"
)

// The names of the objects. The names of a role and of its policy are those that Nomad uses too.
const (
	consulMethodName = "nomad-workloads" // the default of service_auth_method and task_auth_method
	consulPolicyName = "policy-nomad-tasks"
	consulRoleName   = "nomad-default-tasks" // that of the binding rule in namespace "default"
	consulAudience   = "consul.io"
)

// consulClaims are the claims of a workload identity that binding rules and names can use.
var consulClaims = []string{"consul_namespace", "nomad_namespace", "nomad_job_id", "nomad_task", "nomad_service"}

// consulAlgorithms are the signatures that Consul accepts. Implicit identities for Consul are signed with RS256, which is all
// that Nomad uses. EdDSA is the default for an identity that a job has itself.
var consulAlgorithms = []string{"RS256", "EdDSA"}

// consulTaskRules are the rights of tasks. They are read-only. A service gets the right to register itself from its binding.
const consulTaskRules = `key_prefix "" {
  policy = "read"
}

service_prefix "" {
  policy = "read"
}

node_prefix "" {
  policy = "read"
}
`

func reading(ctx context.Context) *api.QueryOptions { return (&api.QueryOptions{}).WithContext(ctx) }

func writing(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// consulObjects are all objects in the order in which they are created: each needs those before it.
func consulObjects(o *options, acl *api.ACL) []object {
	return []object{
		consulAuthMethod(o, acl),
		consulBinding(acl, "service", "${value.nomad_service}", `"nomad_service" in value`),
		consulBinding(acl, "role", "nomad-${value.nomad_namespace}-tasks", `"nomad_service" not in value`),
		consulPolicy(acl),
		consulRole(acl),
	}
}

// consulAuthMethod is the auth method, which verifies the JWTs of workloads.
func consulAuthMethod(o *options, acl *api.ACL) object {
	mappings := map[string]any{}
	for _, c := range consulClaims {
		mappings[c] = c
	}
	config := map[string]any{"JWKSURL": o.url, "JWTSupportedAlgs": consulAlgorithms, "BoundAudiences": []string{consulAudience}, "ClaimMappings": mappings}
	if o.ca != "" {
		config["JWKSCACert"] = o.ca
	}
	return object{
		name: `auth method "` + consulMethodName + `"`,
		show: "verifies workload identities for " + consulAudience + " with the keys at " + o.url,
		find: func(ctx context.Context) (*existing, error) {
			m, _, err := acl.AuthMethodRead(consulMethodName, reading(ctx))
			if m == nil || err != nil {
				return nil, err
			}
			return &existing{id: m.Name, differs: consulDifferences(m, o)}, nil
		},
		create: func(ctx context.Context) error {
			_, _, err := acl.AuthMethodCreate(&api.ACLAuthMethod{Name: consulMethodName, Type: "jwt", DisplayName: consulMethodName,
				Description: "Login of services and tasks of Nomad", TokenLocality: "local", Config: config}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, id string) error {
			_, err := acl.AuthMethodDelete(id, writing(ctx))
			return err
		},
	}
}

// consulDifferences are those of an auth method that existed: keys at another URL, and signatures that it does not accept.
func consulDifferences(m *api.ACLAuthMethod, o *options) (out []string) {
	if at, _ := m.Config["JWKSURL"].(string); at != o.url {
		out = append(out, fmt.Sprintf("the auth method reads the keys from %s, not from -jwks-url. Use -destroy first to change it.", term.Cell(at)))
	}
	accepted, ok := m.Config["JWTSupportedAlgs"].([]any)
	if !ok {
		accepted = []any{"RS256"} // the default of Consul
	}
	for _, alg := range consulAlgorithms {
		if !slices.Contains(accepted, any(alg)) {
			out = append(out, fmt.Sprintf("the auth method does not accept %s: add it to JWTSupportedAlgs for identities with this signature.", alg))
		}
	}
	return out
}

// consulBinding is a binding rule of the auth method. Consul gives it an ID. It is recognized by its contents.
func consulBinding(acl *api.ACL, kind, name, selector string) object {
	return object{
		name: "binding rule for " + kind + ` "` + name + `"`,
		show: "tokens of logins with " + selector,
		find: func(ctx context.Context) (*existing, error) {
			rules, _, err := acl.BindingRuleList(consulMethodName, reading(ctx))
			if err != nil {
				return nil, err
			}
			for _, r := range rules {
				if string(r.BindType) == kind && r.BindName == name && r.Selector == selector {
					return &existing{id: r.ID}, nil
				}
			}
			return nil, nil
		},
		create: func(ctx context.Context) error {
			_, _, err := acl.BindingRuleCreate(&api.ACLBindingRule{Description: "Tokens of workloads of Nomad", AuthMethod: consulMethodName,
				BindType: api.BindingRuleBindType(kind), BindName: name, Selector: selector}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, id string) error {
			_, err := acl.BindingRuleDelete(id, writing(ctx))
			return err
		},
	}
}

// consulPolicy is the policy of tasks.
func consulPolicy(acl *api.ACL) object {
	return object{
		name: `policy "` + consulPolicyName + `"`,
		show: "read access to keys, services and nodes",
		find: func(ctx context.Context) (*existing, error) {
			p, _, err := acl.PolicyReadByName(consulPolicyName, reading(ctx))
			if p == nil || err != nil {
				return nil, err
			}
			return &existing{id: p.ID}, nil
		},
		create: func(ctx context.Context) error {
			_, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: consulPolicyName, Description: "Read access of tasks of Nomad",
				Rules: consulTaskRules}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, id string) error {
			_, err := acl.PolicyDelete(id, writing(ctx))
			return err
		},
	}
}

// consulRole is the role of tasks in namespace "default".
func consulRole(acl *api.ACL) object {
	return object{
		name: `role "` + consulRoleName + `"`,
		show: "the policy for tasks of the namespace default",
		find: func(ctx context.Context) (*existing, error) {
			r, _, err := acl.RoleReadByName(consulRoleName, reading(ctx))
			if r == nil || err != nil {
				return nil, err
			}
			return &existing{id: r.ID}, nil
		},
		create: func(ctx context.Context) error {
			_, _, err := acl.RoleCreate(&api.ACLRole{Name: consulRoleName, Description: "Tasks in the namespace default of Nomad",
				Policies: []*api.ACLLink{{Name: consulPolicyName}}}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, id string) error {
			_, err := acl.RoleDelete(id, writing(ctx))
			return err
		},
	}
}
