package setup

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/command/term"
)

// The names of the objects in Vault are those that Nomad uses too.
const (
	vaultMethod   = "jwt-nomad" // the default of jwt_auth_backend_path
	vaultPolicy   = "nomad-workloads"
	vaultRole     = "nomad-workloads"
	vaultAudience = "vault.io"
)

// What marks the objects of this command, so that -destroy keeps others. A role belongs to its auth method.
const (
	methodMark    = "Login of tasks of Nomad, created by nomad setup vault"
	policyMark    = "# Created by nomad setup vault."
	namespaceKey  = "created-by"
	namespaceMark = "nomad-setup"
)

// vaultAlgorithms are the signatures that Vault accepts.
var vaultAlgorithms = []string{"EdDSA", "RS256"}

// authMount is the auth method as it is mounted.
type authMount struct {
	accessor string
	own      bool // the command has created it
}

// objects are all objects in the order in which they are created: each needs those before it.
func (v *vaultSetup) objects() []object {
	all := []object{v.method(), v.policy(), v.role()}
	if v.namespace == "" {
		return all
	}
	return append([]object{v.ownNamespace()}, all...)
}

// ownNamespace is the namespace of the other objects. A path such as admin/nomad is the child nomad of admin.
func (v *vaultSetup) ownNamespace() object {
	parent, child := "", v.namespace
	if i := strings.LastIndexByte(v.namespace, '/'); i >= 0 {
		parent, child = v.namespace[:i], v.namespace[i+1:]
	}
	path, at := "sys/namespaces/"+child, v.conn.ClientIn(parent).Logical()
	return object{
		name: fmt.Sprintf("namespace %q", v.namespace),
		show: "contains the other objects",
		find: func(ctx context.Context) (*existing, error) {
			found, err := at.ReadWithContext(ctx, path)
			if statusOf(err) == http.StatusForbidden { // the token is perhaps one of the namespace itself
				if _, own := v.client().ReadWithContext(ctx, "auth/token/lookup-self"); own == nil {
					return &existing{kept: "this command did not create it"}, nil
				}
			}
			if err != nil || found == nil {
				v.absent = err == nil
				return nil, err
			}
			meta, _ := found.Data["custom_metadata"].(map[string]any)
			e := &existing{}
			if meta[namespaceKey] != namespaceMark {
				e.kept = "this command did not create it"
			} else if v.destroy {
				e.kept, err = v.contents(ctx)
			}
			return e, err
		},
		create: func(ctx context.Context) error {
			_, err := at.WriteWithContext(ctx, path, map[string]any{"custom_metadata": map[string]string{namespaceKey: namespaceMark}})
			return err
		},
		remove: func(ctx context.Context, _ string) error {
			_, err := at.DeleteWithContext(ctx, path)
			return err
		},
	}
}

// contents returns the reason to keep a namespace: what is in it beyond the objects of the command. All of it, such as the
// secrets of jobs, would be deleted with the namespace.
func (v *vaultSetup) contents(ctx context.Context) (string, error) {
	var extra []string
	for _, part := range []struct {
		path, what string
		own        []string
	}{
		{"sys/mounts", "engine", []string{"cubbyhole/", "identity/", "sys/"}},
		{"sys/auth", "auth method", []string{"token/", vaultMethod + "/"}},
	} {
		found, err := v.client().ReadWithContext(ctx, part.path)
		if err != nil {
			return "", err
		}
		if found == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(found.Data)) {
			if !slices.Contains(part.own, name) {
				extra = append(extra, part.what+" "+term.Cell(name))
			}
		}
	}
	policies, err := v.client().ListWithContext(ctx, "sys/policies/acl")
	if err != nil {
		return "", err
	}
	for _, name := range keysOf(policies) {
		if name != vaultPolicy && name != "default" && name != "root" {
			extra = append(extra, "policy "+term.Cell(name))
		}
	}
	if len(extra) == 0 {
		return "", nil
	}
	return "it also has " + brief(extra), nil
}

// method is the auth method, which verifies the JWTs of tasks.
func (v *vaultSetup) method() object {
	config := "auth/" + vaultMethod + "/config"
	return object{
		name: fmt.Sprintf("JWT auth method %q", vaultMethod),
		show: "verifies workload identities with the keys at " + v.url,
		find: func(ctx context.Context) (*existing, error) {
			if v.absent {
				return nil, nil
			}
			found, err := v.client().ReadWithContext(ctx, "sys/auth/"+vaultMethod)
			if notMounted(err) || err == nil && found == nil {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			e := &existing{}
			if kind := textOf(found.Data["type"]); kind != "jwt" {
				if !v.destroy {
					return nil, &errState{fmt.Sprintf("it has the type %s, not jwt: disable it, or move it to another path", shown(kind))}
				}
				e.kept = "this command did not create it"
				return e, nil
			}
			if v.mount, err = mountOf(found); err != nil {
				return nil, err
			}
			if !v.mount.own {
				e.kept = "this command did not create it. To delete it: vault auth disable " + vaultMethod
			} else if e.kept, err = v.otherRoles(ctx); err != nil {
				return nil, err
			}
			have, err := v.client().ReadWithContext(ctx, config)
			if err != nil {
				return nil, err
			}
			if e.incomplete = have == nil || len(have.Data) == 0; !e.incomplete {
				e.differs = v.methodDiffers(have.Data)
			}
			return e, nil
		},
		create: func(ctx context.Context) error {
			if v.mount == nil {
				if err := v.enable(ctx); err != nil {
					return err
				}
			}
			in := map[string]any{"jwks_url": v.url, "jwt_supported_algs": vaultAlgorithms, "default_role": vaultRole}
			if v.ca != "" {
				in["jwks_ca_pem"] = v.ca
			}
			_, err := v.client().WriteWithContext(ctx, config, in)
			return keysError(err)
		},
		remove: func(ctx context.Context, _ string) error {
			return v.conn.ClientIn(v.namespace).Sys().DisableAuthWithContext(ctx, vaultMethod)
		},
	}
}

// enable mounts the auth method and reads its accessor, which the policy needs.
func (v *vaultSetup) enable(ctx context.Context) error {
	err := v.conn.ClientIn(v.namespace).Sys().EnableAuthWithOptionsWithContext(ctx, vaultMethod, &api.EnableAuthOptions{Type: "jwt",
		Description: methodMark})
	if err != nil {
		return err
	}
	found, err := v.client().ReadWithContext(ctx, "sys/auth/"+vaultMethod)
	if err != nil {
		return err
	}
	v.mount, err = mountOf(found)
	return err
}

// mountOf returns the auth method of an answer. The policy needs its accessor.
func mountOf(found *api.Secret) (*authMount, error) {
	if found == nil || textOf(found.Data["accessor"]) == "" {
		return nil, &errState{"Vault returns no accessor for it: run the command again"}
	}
	return &authMount{textOf(found.Data["accessor"]), found.Data["description"] == methodMark}, nil
}

// notMounted reports whether an answer means that nothing is mounted at a path. Any other error is a failure.
func notMounted(err error) bool {
	return statusOf(err) == http.StatusNotFound ||
		statusOf(err) == http.StatusBadRequest && strings.Contains(errorsOf(err), "no auth engine at")
}

// otherRoles returns the reason to keep an auth method whose logins somebody else uses.
func (v *vaultSetup) otherRoles(ctx context.Context) (string, error) {
	if !v.destroy {
		return "", nil
	}
	found, err := v.client().ListWithContext(ctx, "auth/"+vaultMethod+"/role")
	if err != nil {
		return "", err
	}
	others := slices.DeleteFunc(keysOf(found), func(name string) bool { return name == vaultRole })
	if len(others) == 0 {
		return "", nil
	}
	for i, name := range others {
		others[i] = "role " + term.Cell(name)
	}
	return "it also has " + brief(others), nil
}

// policy is the policy of tasks.
func (v *vaultSetup) policy() object {
	path := "sys/policies/acl/" + vaultPolicy
	return object{
		name: fmt.Sprintf("policy %q", vaultPolicy),
		show: fmt.Sprintf("lets a task read %s/<namespace>/<job>", v.kv),
		find: func(ctx context.Context) (*existing, error) {
			if v.absent {
				return nil, nil
			}
			found, err := v.client().ReadWithContext(ctx, path)
			if err != nil || found == nil {
				return nil, err
			}
			text := textOf(found.Data["policy"])
			e := &existing{differs: v.policyDiffers(text)}
			if !strings.Contains(text, policyMark) {
				e.kept = "this command did not create it. To delete it: vault policy delete " + vaultPolicy
			}
			return e, nil
		},
		create: func(ctx context.Context) error {
			_, err := v.client().WriteWithContext(ctx, path, map[string]any{"policy": base64.StdEncoding.EncodeToString([]byte(v.rules()))})
			return err
		},
		remove: func(ctx context.Context, _ string) error {
			_, err := v.client().DeleteWithContext(ctx, path)
			return err
		},
	}
}

// role is the role of tasks whose job and client name none.
func (v *vaultSetup) role() object {
	path := "auth/" + vaultMethod + "/role/" + vaultRole
	return object{
		name: fmt.Sprintf("role %q", vaultRole),
		show: "gives tasks tokens of the policy, for 30 minutes, renewable",
		find: func(ctx context.Context) (*existing, error) {
			if v.mount == nil {
				return nil, nil
			}
			found, err := v.client().ReadWithContext(ctx, path)
			if err != nil || found == nil {
				return nil, err
			}
			e := &existing{differs: roleDiffers(found.Data)}
			if !v.mount.own && len(e.differs) > 0 {
				e.kept = "this command did not create it"
			}
			return e, nil
		},
		create: func(ctx context.Context) error {
			_, err := v.client().WriteWithContext(ctx, path, roleFields())
			return err
		},
		remove: func(ctx context.Context, _ string) error {
			_, err := v.client().DeleteWithContext(ctx, path)
			return err
		},
	}
}

// roleFields are the fields of a new role. The user claim differs from that of Nomad, the ID of the job. Jobs with the same ID in
// several namespaces would share an entity of Vault. Each login replaces its metadata, and so the paths that the policy allows
// to the tokens of all of them.
func roleFields() map[string]any {
	return map[string]any{"role_type": "jwt", "bound_audiences": []string{vaultAudience}, "user_claim": "/sub",
		"user_claim_json_pointer": true, "token_type": "service", "token_period": 1800, "token_policies": []string{vaultPolicy},
		"claim_mappings": map[string]string{"nomad_namespace": "nomad_namespace", "nomad_job_id": "nomad_job_id", "nomad_task": "nomad_task"}}
}

// rules is the text of the policy. A job reads its own secrets only.
func (v *vaultSetup) rules() string {
	alias := "{{identity.entity.aliases." + v.mount.accessor + ".metadata."
	job := v.kv + "/data/" + alias + "nomad_namespace}}/" + alias + "nomad_job_id}}"
	var b strings.Builder
	b.WriteString(policyMark + "\n")
	for _, r := range []struct{ path, right string }{{job + "/*", "read"}, {job, "read"},
		{v.kv + "/metadata/" + alias + "nomad_namespace}}/*", "list"}, {v.kv + "/metadata/*", "list"}} {
		fmt.Fprintf(&b, "\npath %q {\n  capabilities = [%q]\n}\n", r.path, r.right)
	}
	return b.String()
}
