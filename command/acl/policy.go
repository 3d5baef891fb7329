package acl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxRules is the maximum size of a file with rules, in bytes. The servers accept less.
const maxRules = 1 << 20

func policyApplyCommand() term.Command {
	return term.Action(term.Command{
		Name: "acl policy apply", Args: "<name> <path or ->", MinArgs: 2, MaxArgs: 2,
		Short: "Create or update a policy",
		Long: "The file (- for standard input) has rules in HCL or JSON. The servers report all faults, with line and column.\n\n" +
			"-job attaches the policy to the workloads of a job in the namespace (-namespace, NOMAD_NAMESPACE or default). " +
			"-group and -task attach it to some of them. " +
			"-namespace without -job attaches it to all workloads of the namespace. Names must be complete.\n\n" +
			"    nomad acl policy apply -description \"Read jobs\" readers readers.hcl\n" +
			"    nomad acl policy apply -namespace shop -job web web-secrets - < web.hcl",
	}, func(f *term.Flags) term.Ask[string] {
		p, j := &api.ACLPolicy{}, &api.JobACL{}
		f.StringVar(&p.Description, "description", "", "The description of the policy.")
		f.StringVar(&j.JobID, "job", "", "Attach the policy to the workloads of this `job`.")
		f.StringVar(&j.Group, "group", "", "Attach it to this `group` only. Requires -job.")
		f.StringVar(&j.Task, "task", "", "Attach it to this `task` only. Requires -group.")
		return func(ctx context.Context, e *term.Env, c *api.Client) (string, error) {
			var err error
			if p.JobACL, err = workloads(e, j); err != nil {
				return "", err
			}
			rules, err := e.Input(e.Arg(1), maxRules)
			if err != nil {
				return "", fmt.Errorf("Error reading the policy: %w", err)
			}
			p.Name, p.Rules = e.Arg(0), string(rules)
			if _, err := c.ACLPolicies().Upsert(p, writing(ctx)); err != nil {
				return "", refusal("Error writing ACL policy", err)
			}
			line := fmt.Sprintf("Successfully wrote %q ACL policy!", p.Name)
			if p.JobACL != nil {
				line += " It is attached to " + jobACLText(p.JobACL) + "."
			}
			return line, nil
		}
	})
}

// workloads returns the workloads that the flags name, nil without flags.
func workloads(e *term.Env, j *api.JobACL) (*api.JobACL, error) {
	switch {
	case j.Task != "" && j.Group == "":
		return nil, errors.New("-task requires -group")
	case j.Group != "" && j.JobID == "":
		return nil, errors.New("-group requires -job")
	case j.JobID == "" && e.NamespaceFlag() == "":
		return nil, nil
	}
	j.Namespace = e.Namespace()
	return j, nil
}

// jobACLText describes the workloads of j.
func jobACLText(j *api.JobACL) string {
	switch {
	case j.JobID == "":
		return fmt.Sprintf("all workloads of namespace %q", j.Namespace)
	case j.Group == "":
		return fmt.Sprintf("the workloads of job %q in namespace %q", j.JobID, j.Namespace)
	case j.Task == "":
		return fmt.Sprintf("the workloads of group %q of job %q in namespace %q", j.Group, j.JobID, j.Namespace)
	}
	return fmt.Sprintf("task %q of group %q of job %q in namespace %q", j.Task, j.Group, j.JobID, j.Namespace)
}

func policyDeleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "acl policy delete", Args: "<name>", Short: "Delete a policy"}, "ACL policy",
		func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.ACLPolicies().Delete(name, w)
		})
}

func policyInfoCommand() term.Command {
	return term.Query(term.Command{Name: "acl policy info", Args: "<name>", MinArgs: 1, MaxArgs: 1, Short: "Show a policy"},
		plain(func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLPolicy, error) {
			p, _, err := c.ACLPolicies().Info(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error fetching info on ACL policy: %w", err)
			}
			return p, nil
		}), showPolicy)
}

func showPolicy(e *term.Env, p *api.ACLPolicy) {
	rows := []string{term.Row("Name", p.Name), term.Row("Description", p.Description),
		term.Row("CreateIndex", p.CreateIndex), term.Row("ModifyIndex", p.ModifyIndex)}
	if j := p.JobACL; j != nil {
		for _, part := range [][2]string{{"Namespace", j.Namespace}, {"JobID", j.JobID}, {"Group", j.Group}, {"Task", j.Task}} {
			if part[1] != "" {
				rows = append(rows, term.Row(part[0], part[1]))
			}
		}
	}
	e.Println(term.Pairs(rows) + "\n\n" + e.Bold("Rules") + "\n\n" + strings.TrimRight(p.Rules, "\n"))
}

func policyListCommand() term.Command {
	return term.Shown(term.Command{Name: "acl policy list", Short: "List the policies that you can read"},
		func(ctx context.Context, c *api.Client) ([]*api.ACLPolicyListStub, error) {
			all, _, err := c.ACLPolicies().List(reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error listing ACL policies: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.ACLPolicyListStub) {
			if len(all) == 0 {
				e.Println("No policies found")
				return
			}
			rows := []string{"Name|Description"}
			for _, p := range all {
				rows = append(rows, term.Row(p.Name, p.Description))
			}
			e.Println(term.Table(rows))
		})
}

func policySelfCommand() term.Command {
	return term.Shown(term.Command{Name: "acl policy self", Short: "List the policies of your own token or workload identity"},
		func(ctx context.Context, c *api.Client) ([]*api.ACLPolicyListStub, error) {
			all, _, err := c.ACLPolicies().Self(reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error fetching policies: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.ACLPolicyListStub) {
			if len(all) == 0 {
				e.Println("No policies found for this identity.")
				return
			}
			rows := []string{"Name|Namespace|Job ID|Group Name|Task Name"}
			for _, p := range all {
				j := api.JobACL{}
				if p.JobACL != nil {
					j = *p.JobACL
				}
				rows = append(rows, term.Row(p.Name, j.Namespace, j.JobID, j.Group, j.Task))
			}
			e.Println(term.Table(rows))
		})
}
