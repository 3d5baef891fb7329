package acl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// roleFlags are the flags of the commands that write roles.
type roleFlags struct {
	name, description string
	policies          *[]string
}

func (o *roleFlags) declare(f *term.Flags) {
	f.StringVar(&o.name, "name", "", "The name of the role.")
	f.StringVar(&o.description, "description", "", "The description of the role.")
	o.policies = f.Strings("policy", "A `policy` of the role. May be repeated.")
}

// over sets the fields of r that the flags give, and adds the policies.
func (o *roleFlags) over(r *api.ACLRole) {
	r.Name, r.Description = cmp.Or(o.name, r.Name), cmp.Or(o.description, r.Description)
	for _, name := range *o.policies {
		if !slices.ContainsFunc(r.Policies, func(l *api.ACLRolePolicyLink) bool { return l.Name == name }) {
			r.Policies = append(r.Policies, &api.ACLRolePolicyLink{Name: name})
		}
	}
}

func roleCreateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl role create", Short: "Create a role: a named set of policies",
		Long: "    nomad acl role create -name operations -policy read-jobs -policy drain-nodes",
	}, func(f *term.Flags) term.Ask[*api.ACLRole] {
		o := &roleFlags{}
		o.declare(f)
		return func(ctx context.Context, _ *term.Env, c *api.Client) (*api.ACLRole, error) {
			r := &api.ACLRole{}
			o.over(r)
			made, _, err := c.ACLRoles().Create(r, writing(ctx))
			if err != nil {
				return nil, refusal("Error creating ACL role", err)
			}
			return made, nil
		}
	}, showRole)
}

func roleUpdateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl role update", Args: "<acl_role_id>", MinArgs: 1, MaxArgs: 1,
		Short: "Update a role",
		Long:  "Fields without a flag are unchanged, and policies are added. With -no-merge the flags replace the complete role.",
	}, func(f *term.Flags) term.Ask[*api.ACLRole] {
		o := &roleFlags{}
		o.declare(f)
		afresh := f.Bool("no-merge", false, "Replace the complete role, except its ID.")
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLRole, error) {
			if *afresh && (o.name == "" || len(*o.policies) == 0) {
				return nil, errors.New("-no-merge requires -name and -policy")
			}
			r, _, err := c.ACLRoles().Get(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error reading ACL role: %w", err)
			}
			if *afresh {
				r = &api.ACLRole{ID: r.ID}
			}
			o.over(r)
			updated, _, err := c.ACLRoles().Update(r, writing(ctx))
			if err != nil {
				return nil, refusal("Error updating ACL role", err)
			}
			return updated, nil
		}
	}, showRole)
}

func roleDeleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "acl role delete", Args: "<acl_role_id>", Short: "Delete a role"}, "ACL role",
		func(c *api.Client, id string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.ACLRoles().Delete(id, w)
		})
}

func roleInfoCommand() term.Command {
	return term.Query(term.Command{Name: "acl role info", Args: "<role_id or name>", MinArgs: 1, MaxArgs: 1, Short: "Show a role"},
		func(f *term.Flags) term.Ask[*api.ACLRole] {
			byName := f.Bool("by-name", false, "The argument is the name of the role.")
			return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLRole, error) {
				find := c.ACLRoles().Get
				if *byName {
					find = c.ACLRoles().GetByName
				}
				r, _, err := find(e.Arg(0), reading(ctx))
				if err != nil {
					return nil, fmt.Errorf("Error reading ACL role: %w", err)
				}
				return r, nil
			}
		}, showRole)
}

func roleListCommand() term.Command {
	return term.Shown(term.Command{Name: "acl role list", Short: "List the roles that you can read"},
		func(ctx context.Context, c *api.Client) ([]*api.ACLRoleListStub, error) {
			all, _, err := c.ACLRoles().List(reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error listing ACL roles: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.ACLRoleListStub) {
			if len(all) == 0 {
				e.Println("No ACL roles found")
				return
			}
			rows := []string{"ID|Name|Description|Policies"}
			for _, r := range all {
				rows = append(rows, term.Row(r.ID, r.Name, r.Description, policyNames(r.Policies)))
			}
			e.Println(term.Table(rows))
		})
}

func showRole(e *term.Env, r *api.ACLRole) {
	e.Println(term.Pairs([]string{term.Row("ID", r.ID), term.Row("Name", r.Name), term.Row("Description", r.Description),
		term.Row("Policies", policyNames(r.Policies)), term.Row("Create Index", r.CreateIndex), term.Row("Modify Index", r.ModifyIndex)}))
}

func policyNames(links []*api.ACLRolePolicyLink) string {
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.Name
	}
	return strings.Join(names, ",")
}
