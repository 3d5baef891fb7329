package acl

import (
	"cmp"
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// ruleFlags are the flags of the commands that write binding rules.
type ruleFlags struct{ description, selector, bindType, bindName string }

func (o *ruleFlags) declare(f *term.Flags) {
	f.StringVar(&o.description, "description", "", "The description of the binding rule.")
	f.StringVar(&o.selector, "selector", "",
		"The `expression` over value.<claim> and list.<claim> that selects identities.\n"+
			"An identity without one of its claims does not match. Default: every identity.")
	f.StringVar(&o.bindType, "bind-type", "", "What the rule grants: role, policy or management.")
	f.StringVar(&o.bindName, "bind-name", "", "The `name` of the role or policy. It may contain ${value.<claim>}.")
}

// over sets the fields of r that the flags give.
func (o *ruleFlags) over(r *api.ACLBindingRule) {
	r.Description, r.Selector = cmp.Or(o.description, r.Description), cmp.Or(o.selector, r.Selector)
	r.BindType, r.BindName = cmp.Or(o.bindType, r.BindType), cmp.Or(o.bindName, r.BindName)
}

func ruleCreateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl binding-rule create", Short: "Create a binding rule: the policies and roles of tokens from an auth method",
		Long: "    nomad acl binding-rule create -auth-method people -bind-type role \\\n" +
			"        -bind-name operations -selector '\"ops\" in list.groups'",
	}, func(f *term.Flags) term.Ask[*api.ACLBindingRule] {
		o := &ruleFlags{}
		o.declare(f)
		method := f.String("auth-method", "", "The `name` of the auth method of the rule.")
		return func(ctx context.Context, _ *term.Env, c *api.Client) (*api.ACLBindingRule, error) {
			r := &api.ACLBindingRule{AuthMethod: *method}
			o.over(r)
			made, _, err := c.ACLBindingRules().Create(r, writing(ctx))
			if err != nil {
				return nil, refusal("Error creating ACL binding rule", err)
			}
			return made, nil
		}
	}, showRule)
}

func ruleUpdateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl binding-rule update", Args: "<acl_binding_rule_id>", MinArgs: 1, MaxArgs: 1,
		Short: "Update a binding rule",
		Long: "Fields without a flag are unchanged. With -no-merge they are cleared. Existing tokens keep what the " +
			"rule granted until they expire.",
	}, func(f *term.Flags) term.Ask[*api.ACLBindingRule] {
		o := &ruleFlags{}
		o.declare(f)
		afresh := f.Bool("no-merge", false, "Clear all fields without a flag, except the ID and the auth method.")
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLBindingRule, error) {
			r, _, err := c.ACLBindingRules().Get(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error reading ACL binding rule: %w", err)
			}
			if *afresh {
				r = &api.ACLBindingRule{ID: r.ID, AuthMethod: r.AuthMethod}
			}
			o.over(r)
			if r.BindType == api.ACLBindingRuleBindTypeManagement && o.bindName == "" {
				r.BindName = "" // a management rule has no bind name
			}
			updated, _, err := c.ACLBindingRules().Update(r, writing(ctx))
			if err != nil {
				return nil, refusal("Error updating ACL binding rule", err)
			}
			return updated, nil
		}
	}, showRule)
}

func ruleDeleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "acl binding-rule delete", Args: "<acl_binding_rule_id>",
		Short: "Delete a binding rule. Existing tokens keep what it granted until they expire"}, "ACL binding rule",
		func(c *api.Client, id string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.ACLBindingRules().Delete(id, w)
		})
}

func ruleInfoCommand() term.Command {
	return term.Query(term.Command{Name: "acl binding-rule info", Args: "<acl_binding_rule_id>", MinArgs: 1, MaxArgs: 1,
		Short: "Show a binding rule"},
		plain(func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLBindingRule, error) {
			r, _, err := c.ACLBindingRules().Get(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error reading ACL binding rule: %w", err)
			}
			return r, nil
		}), showRule)
}

func ruleListCommand() term.Command {
	return term.Shown(term.Command{Name: "acl binding-rule list", Short: "List the binding rules"},
		func(ctx context.Context, c *api.Client) ([]*api.ACLBindingRuleListStub, error) {
			all, _, err := c.ACLBindingRules().List(reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error listing ACL binding rules: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.ACLBindingRuleListStub) {
			if len(all) == 0 {
				e.Println("No ACL binding rules found")
				return
			}
			rows := []string{"ID|Description|Auth Method"}
			for _, r := range all {
				rows = append(rows, term.Row(r.ID, r.Description, r.AuthMethod))
			}
			e.Println(term.Table(rows))
		})
}

func showRule(e *term.Env, r *api.ACLBindingRule) {
	e.Println(term.Pairs([]string{term.Row("ID", r.ID), term.Row("Description", r.Description), term.Row("Auth Method", r.AuthMethod),
		term.Row("Selector", fmt.Sprintf("%q", r.Selector)), term.Row("Bind Type", r.BindType), term.Row("Bind Name", r.BindName),
		term.Row("Create Time", term.Time(r.CreateTime)), term.Row("Modify Time", term.Time(r.ModifyTime)),
		term.Row("Create Index", r.CreateIndex), term.Row("Modify Index", r.ModifyIndex)}))
}
