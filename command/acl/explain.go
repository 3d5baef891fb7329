package acl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// refusedExit is the exit code when access is denied; 1 is for errors.
const refusedExit = 2

// maxRequestBody is the maximum size of a request body, in bytes.
const maxRequestBody = 1 << 20

// explanation holds the flags of acl explain.
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
		Short: "Show who is allowed to do something, and by which rules",
		Long: "The kinds are variable, job, allocation, audience, namespace, node_pool, host_volume, node, agent, " +
			"operator, quota and plugin. The rights are the capabilities of policies. " +
			"For job and allocation there are also read, list, run, plan, stop, purge, revert, dispatch, force, " +
			"scale, stable, exec, logs, fs, restart, signal, gc and evaluate. " +
			"For audience there is also mint. " +
			"-namespace sets the namespace of the variable or job.\n\n" +
			"Without a flag the command checks your own token. To check others you need a management token.\n\n" +
			"    nomad acl explain variable write nomad/jobs/web\n" +
			"    nomad acl explain -who variable read nomad/jobs/web\n" +
			"    nomad acl explain -workload default/web/api/server variable read shared/db\n" +
			"    nomad acl explain -policy deploy -namespace prod job exec web\n" +
			"    nomad acl explain -who audience mint vault.example.com\n" +
			"    nomad acl explain -accessor 7ae92a4f-0e52-7ff5-b4ae-c1ef7fda0a5e -request \"DELETE /v1/job/web\"\n\n" +
			"Some requests need a right on an object that is only known during the call, such as the namespace of " +
			"an evaluation. The answer then names the right and is \"depends\".\n\n" +
			"Exit codes: 0 if access is allowed (with -who: to at least one), 2 if it is denied or depends, 1 after an error.",
		Setup: func(f *term.Flags) term.Run {
			x := &explanation{}
			x.declare(f)
			return x.run
		},
	}
}

func (x *explanation) declare(f *term.Flags) {
	f.StringVar(&x.AccessorID, "accessor", "", "Check the token with this accessor `ID`, or anonymous for a caller without a token.")
	f.StringVar(&x.Role, "role", "", "Check a caller with this role only: its `name` or ID.")
	f.StringVar(&x.Policy, "policy", "", "Check a caller with the policy of this `name` only.")
	f.StringVar(&x.workload, "workload", "",
		"Check the identity of a workload: `namespace/job/group/task`.\nWrite a slash within a name as %2F.")
	f.BoolVar(&x.Everybody, "who", false, "List all tokens, roles and workloads that are allowed.")
	f.StringVar(&x.request, "request", "",
		"Check the rights that an HTTP `request` needs, such as \"GET /v1/jobs\", instead of\nkind, right and name. The request is not sent.")
	f.StringVar(&x.body, "body", "", "A `file` with the JSON body of the request, - for standard input.")
	f.IntVar(&x.perPage, "per-page", 0, "With -who: the number of entries per page. Default 100.")
	f.StringVar(&x.pageToken, "page-token", "", "With -who: the token of the page to show.")
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
			e.Printf("\nTo get the next page, use -page-token %q\n", meta.NextToken)
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

// question fills in the request from flags and arguments.
func (x *explanation) question(e *term.Env) error {
	var err error
	if x.workload != "" {
		if x.Workload, err = api.ParseJobACL(x.workload); err != nil {
			return fmt.Errorf("-workload: %w", err)
		}
	}
	if x.request == "" {
		if x.body != "" || len(e.Args) < 2 {
			return errors.New("Expected <kind> <right> [name], or -request")
		}
		x.Kind, x.Right, x.Name = e.Arg(0), e.Arg(1), e.Arg(2)
		return nil
	}
	if len(e.Args) > 0 {
		return errors.New("-request cannot be combined with arguments")
	}
	method, path, ok := strings.Cut(strings.TrimSpace(x.request), " ")
	if !ok {
		return fmt.Errorf("-request %q: expected a method and a path, such as \"GET /v1/jobs\"", x.request)
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

// showExplanation prints the decision for one subject and the rules behind it.
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
			e.Println("  allowed for every caller")
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

// showEverybody prints all subjects that are allowed.
func showEverybody(e *term.Env, out *api.ACLExplainResponse) {
	if len(out.Needs) > 0 {
		e.Println("Needs " + strings.Join(out.Needs, ", and ") + "\n")
	}
	if len(out.Answers) == 0 {
		e.Println("No token, role or workload on this page is allowed")
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

// reasons returns the rules that allow the needs, without duplicates.
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
