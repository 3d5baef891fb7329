package acl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// refusedExit is the exit code when the answer is no: 1 is for errors.
const refusedExit = 2

// maxRequestBody bounds what is read as the body of a request.
const maxRequestBody = 1 << 20

// explanation is what acl explain is asked.
type explanation struct {
	api.ACLExplainRequest
	workload, request, body string
	perPage                 int
	pageToken               string
	formats                 term.Formats
}

func explainCommand() term.Command {
	return term.Command{
		Name: "acl explain", Args: "<kind> <right> [name]", MaxArgs: 3,
		Short: "Say who may do something, and which rules say so",
		Long: "The kinds are variable, job, allocation, audience, namespace, node_pool, host_volume, node, agent, operator, quota and plugin; the rights are the capabilities of policies. " +
			"Those of job and allocation are also called read, list, run, plan, stop, purge, revert, dispatch, scale, exec, logs, fs, restart, signal, gc and evaluate; that of audience is mint. " +
			"-namespace says where the variable or job is.\n" +
			"Without a flag it is about the token that is used. About others a management token may ask.\n\n" +
			"    nomad acl explain variable write nomad/jobs/web\n" +
			"    nomad acl explain -who variable read nomad/jobs/web\n" +
			"    nomad acl explain -workload default/web/api/server variable read shared/db\n" +
			"    nomad acl explain -policy deploy -namespace prod job exec web\n" +
			"    nomad acl explain -who audience mint vault.example.com\n" +
			"    nomad acl explain -accessor 7ae92a4f-0e52-7ff5-b4ae-c1ef7fda0a5e -request \"DELETE /v1/job/web\"\n\n" +
			"Some requests ask for a right on a thing that only the call itself finds, such as the namespace of an evaluation: the answer names the right, and depends.\n" +
			"The exit code is 0 when it is allowed (with -who: to somebody), 2 when it is not or depends, and 1 after an error.",
		Setup: func(f *term.Flags) term.Run {
			x := &explanation{}
			x.declare(f)
			return x.run
		},
	}
}

func (x *explanation) declare(f *term.Flags) {
	f.StringVar(&x.AccessorID, "accessor", "", "About the token with this accessor `ID`; anonymous is who has none.")
	f.StringVar(&x.Role, "role", "", "About who has this role, its `name` or ID, and nothing else.")
	f.StringVar(&x.Policy, "policy", "", "About who has the policy of this `name` and nothing else.")
	f.StringVar(&x.workload, "workload", "", "About the identity of a workload: `namespace/job/group/task`.\nA slash within a name is written %2F.")
	f.BoolVar(&x.Everybody, "who", false, "List all who may: tokens, roles and workloads.")
	f.StringVar(&x.request, "request", "", "In place of kind, right and name: what this `request` needs, such as \"GET /v1/jobs\".\nIt is not made.")
	f.StringVar(&x.body, "body", "", "A `file` with the JSON body of the request; - is standard input.")
	f.IntVar(&x.perPage, "per-page", 0, "With -who: how many to show. Default 100.")
	f.StringVar(&x.pageToken, "page-token", "", "With -who: where to go on.")
	x.formats.Declare(f)
}

func (x *explanation) run(ctx context.Context, e *term.Env) error {
	if err := x.question(e); err != nil {
		return err
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	q := &api.QueryOptions{PerPage: int32(x.perPage), NextToken: x.pageToken, Namespace: e.Namespace()}
	if x.Workload != nil && e.NamespaceFlag() == "" {
		q.Namespace = x.Workload.Namespace
	}
	out, meta, err := c.ACLPolicies().Explain(&x.ACLExplainRequest, q.WithContext(ctx))
	if err != nil {
		return refusal("Error explaining", err)
	}
	switch {
	case x.formats.Wanted():
		err = x.formats.Print(e, out)
	case x.Everybody:
		showEverybody(e, out)
		if meta.NextToken != "" {
			e.Printf("\nThere may be more: -page-token %q\n", meta.NextToken)
		}
	default:
		showExplanation(e, out)
	}
	if err != nil {
		return err
	}
	for _, a := range out.Answers {
		if a.Allowed {
			return nil
		}
	}
	return term.Exit(refusedExit)
}

// question takes what is asked from flags and arguments.
func (x *explanation) question(e *term.Env) error {
	var err error
	if x.workload != "" {
		if x.Workload, err = api.ParseJobACL(x.workload); err != nil {
			return fmt.Errorf("-workload: %w", err)
		}
	}
	if x.request == "" {
		if x.body != "" || len(e.Args) < 2 {
			return errors.New("A question is <kind> <right> [name], or -request")
		}
		x.Kind, x.Right, x.Name = e.Arg(0), e.Arg(1), e.Arg(2)
		return nil
	}
	if len(e.Args) > 0 {
		return errors.New("-request stands in place of the arguments")
	}
	method, path, ok := strings.Cut(strings.TrimSpace(x.request), " ")
	if !ok {
		return fmt.Errorf("-request %q is no method and path, such as \"GET /v1/jobs\"", x.request)
	}
	x.Request = &api.ACLExplainHTTP{Method: strings.ToUpper(method), Path: strings.TrimSpace(path)}
	if x.body == "" {
		return nil
	}
	if x.Request.Body, err = e.Input(x.body, maxRequestBody); err != nil {
		return fmt.Errorf("Error reading the body: %w", err)
	}
	return nil
}

// showExplanation prints the answer about one subject, and what decided.
func showExplanation(e *term.Env, out *api.ACLExplainResponse) {
	verdict := func(allowed bool) string {
		switch {
		case allowed:
			return "allowed"
		case out.Depends != "":
			return "depends"
		}
		return "refused"
	}
	for _, a := range out.Answers {
		e.Println(e.Bold(verdict(a.Allowed)) + ": " + a.Subject.String())
		if len(a.Decisions) == 0 {
			e.Println("  everybody may do this")
		}
		for _, d := range a.Decisions {
			e.Printf("  %s: %s: %s\n", d.Question, verdict(d.Allowed), d.Reason)
			for _, r := range d.Rules {
				e.Println("    " + r.String())
			}
		}
	}
	showIdentities(e, out.Identities)
}

// showEverybody prints all who may.
func showEverybody(e *term.Env, out *api.ACLExplainResponse) {
	if len(out.Needs) > 0 {
		e.Println("Needs " + strings.Join(out.Needs, ", and ") + "\n")
	}
	if len(out.Answers) == 0 {
		e.Println("Nobody on this page may do this")
	} else {
		rows := []string{"Kind|ID|Name|Reason|Policies"}
		for _, a := range out.Answers {
			name := a.Subject.Name
			if a.Subject.Workload != nil {
				name = a.Subject.Workload.String()
			}
			rows = append(rows, term.Row(a.Subject.Kind, a.Subject.ID, name, reasons(a), policiesOf(a)))
		}
		e.Println(term.Table(rows))
	}
	showIdentities(e, out.Identities)
}

func showIdentities(e *term.Env, all []*api.ACLExplainIdentity) {
	if len(all) == 0 {
		return
	}
	rows := []string{"Job|Group|Task|Service|Identity"}
	for _, id := range all {
		rows = append(rows, term.Row(id.JobID, id.Group, id.Task, id.Service, id.Identity))
	}
	e.Println("\n" + e.Bold("Identities with this audience") + "\n" + term.Table(rows))
}

// reasons are why each need is met, each reason once.
func reasons(a *api.ACLExplanation) string {
	return once(a, func(d *api.ACLDecision) []string { return []string{d.Reason} })
}

func policiesOf(a *api.ACLExplanation) string {
	return once(a, func(d *api.ACLDecision) (names []string) {
		for _, r := range d.Rules {
			names = append(names, r.Policy)
		}
		return names
	})
}

func once(a *api.ACLExplanation, of func(*api.ACLDecision) []string) string {
	seen, out := map[string]bool{}, []string{}
	for _, d := range a.Decisions {
		for _, text := range of(d) {
			if !seen[text] {
				seen[text], out = true, append(out, text)
			}
		}
	}
	return strings.Join(out, ",")
}
