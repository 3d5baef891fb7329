package setup

import (
	"context"

	"github.com/hashicorp/consul/api"
)

// The names of the objects. The names of a role and of its policy are those that Nomad uses too.
const (
	methodName = "nomad-workloads" // the default of service_auth_method and task_auth_method
	policyName = "policy-nomad-tasks"
	roleName   = "nomad-default-tasks" // that of the binding rule in namespace "default"
	audience   = "consul.io"
)

// claims are the claims of a workload identity that binding rules and names can use.
var claims = []string{"consul_namespace", "nomad_namespace", "nomad_job_id", "nomad_task", "nomad_service"}

// algorithms are the signatures that Consul accepts. Implicit identities for Consul are signed with RS256, which is all
// that Nomad uses. EdDSA is the default for an identity that a job has itself.
var algorithms = []string{"RS256", "EdDSA"}

// taskRules are the rights of tasks. They are read-only. A service gets the right to register itself from its binding.
const taskRules = `key_prefix "" {
  policy = "read"
}

service_prefix "" {
  policy = "read"
}

node_prefix "" {
  policy = "read"
}
`

// object is one object in Consul.
type object struct {
	name string // in a sentence, such as "policy \"policy-nomad-tasks\""
	show string // what it contains, for the question
	// find returns the ID, "" if it does not exist.
	find   func(context.Context, *api.ACL) (id string, err error)
	create func(context.Context, *api.ACL) error
	remove func(ctx context.Context, acl *api.ACL, id string) error
}

func reading(ctx context.Context) *api.QueryOptions { return (&api.QueryOptions{}).WithContext(ctx) }

func writing(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// objects are all objects in the order in which they are created: each needs those before it.
func (o *options) objects() []object {
	return []object{
		o.method(),
		binding("service", "${value.nomad_service}", `"nomad_service" in value`),
		binding("role", "nomad-${value.nomad_namespace}-tasks", `"nomad_service" not in value`),
		policy(),
		role(),
	}
}

// method is the auth method, which verifies the JWTs of workloads.
func (o *options) method() object {
	mappings := map[string]any{}
	for _, c := range claims {
		mappings[c] = c
	}
	config := map[string]any{"JWKSURL": o.url, "JWTSupportedAlgs": algorithms, "BoundAudiences": []string{audience}, "ClaimMappings": mappings}
	if o.ca != "" {
		config["JWKSCACert"] = o.ca
	}
	return object{
		name: `auth method "` + methodName + `"`,
		show: "verifies workload identities for " + audience + " with the keys at " + o.url,
		find: func(ctx context.Context, acl *api.ACL) (string, error) {
			m, _, err := acl.AuthMethodRead(methodName, reading(ctx))
			if m == nil || err != nil {
				return "", err
			}
			return m.Name, nil
		},
		create: func(ctx context.Context, acl *api.ACL) error {
			_, _, err := acl.AuthMethodCreate(&api.ACLAuthMethod{Name: methodName, Type: "jwt", DisplayName: methodName,
				Description: "Login of services and tasks of Nomad", TokenLocality: "local", Config: config}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, acl *api.ACL, id string) error {
			_, err := acl.AuthMethodDelete(id, writing(ctx))
			return err
		},
	}
}

// binding is a binding rule of the auth method. Consul gives it an ID. It is recognized by its contents.
func binding(kind, name, selector string) object {
	return object{
		name: "binding rule for " + kind + ` "` + name + `"`,
		show: "tokens of logins with " + selector,
		find: func(ctx context.Context, acl *api.ACL) (string, error) {
			rules, _, err := acl.BindingRuleList(methodName, reading(ctx))
			for _, r := range rules {
				if string(r.BindType) == kind && r.BindName == name && r.Selector == selector {
					return r.ID, err
				}
			}
			return "", err
		},
		create: func(ctx context.Context, acl *api.ACL) error {
			_, _, err := acl.BindingRuleCreate(&api.ACLBindingRule{Description: "Tokens of workloads of Nomad", AuthMethod: methodName,
				BindType: api.BindingRuleBindType(kind), BindName: name, Selector: selector}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, acl *api.ACL, id string) error {
			_, err := acl.BindingRuleDelete(id, writing(ctx))
			return err
		},
	}
}

// policy is the policy of tasks.
func policy() object {
	return object{
		name: `policy "` + policyName + `"`,
		show: "read access to keys, services and nodes",
		find: func(ctx context.Context, acl *api.ACL) (string, error) {
			p, _, err := acl.PolicyReadByName(policyName, reading(ctx))
			if p == nil || err != nil {
				return "", err
			}
			return p.ID, nil
		},
		create: func(ctx context.Context, acl *api.ACL) error {
			_, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: policyName, Description: "Read access of tasks of Nomad",
				Rules: taskRules}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, acl *api.ACL, id string) error {
			_, err := acl.PolicyDelete(id, writing(ctx))
			return err
		},
	}
}

// role is the role of tasks in namespace "default".
func role() object {
	return object{
		name: `role "` + roleName + `"`,
		show: "the policy for tasks of the namespace default",
		find: func(ctx context.Context, acl *api.ACL) (string, error) {
			r, _, err := acl.RoleReadByName(roleName, reading(ctx))
			if r == nil || err != nil {
				return "", err
			}
			return r.ID, nil
		},
		create: func(ctx context.Context, acl *api.ACL) error {
			_, _, err := acl.RoleCreate(&api.ACLRole{Name: roleName, Description: "Tasks in the namespace default of Nomad",
				Policies: []*api.ACLLink{{Name: policyName}}}, writing(ctx))
			return err
		},
		remove: func(ctx context.Context, acl *api.ACL, id string) error {
			_, err := acl.RoleDelete(id, writing(ctx))
			return err
		},
	}
}
